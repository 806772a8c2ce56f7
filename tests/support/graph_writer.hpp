// A graph as a delegate's blob again, for files that were changed as graphs.
#pragma once

#include <optional>

#include "graph/graph.hpp"
#include "support/blob_builder.hpp"

namespace nibble::test {

/// `file`: what the graph was read from, with the bytes of its constants; those that are found by name stay names.
/// Nothing where the graph is none that a blob can hold: passes ran over it.
std::optional<BlobBuilder> builder_of(const Graph& graph, std::span<const std::byte> file);

}  // namespace nibble::test
