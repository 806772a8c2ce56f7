// The delegate blob that the exporter writes for the id VulkanBackend: a VH00 header, a VK00 FlatBuffer, and perhaps
// raw constants.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "graph/graph.hpp"

namespace nibble {

/// Bytes of the named constant, or an error when there is none of that name.
using NamedSize = std::function<Result<std::uint64_t>(std::string_view key)>;

/// Checks all of the blob. In the graph, inline constants are located, with offsets from the start of the blob; named
/// ones have a key, and whoever opened the program locates them.
Result<Graph> read_blob(std::span<const std::byte> blob, const NamedSize& named);

}  // namespace nibble
