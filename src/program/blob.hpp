// The delegate blob that the exporter writes for the id VulkanBackend: a VH00 header, a VK00 FlatBuffer, and perhaps
// raw constants.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "graph/graph.hpp"
#include "program/bytes.hpp"

namespace nibble {

/// The size of the named constant in bytes, or an error if there is no such constant.
using NamedSize = std::function<Result<std::uint64_t>(std::string_view key)>;

/// Reads and checks the whole blob. In the graph, inline constants have offsets from the start of the blob. Named ones
/// have a key, and the caller finds their bytes.
Result<Graph> read_blob(std::span<const std::byte> blob, const NamedSize& named);

/// The same for the `size` bytes of a file from `offset` on. The raw constants are not read.
Result<Graph> read_blob(const ByteSource& file, std::uint64_t offset, std::uint64_t size, const NamedSize& named);

}  // namespace nibble
