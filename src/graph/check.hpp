// What holds of every graph that is planned, wherever it comes from.
#pragma once

#include "graph/graph.hpp"

namespace nibble {

/// Inputs and outputs are tensors or SymInts. An input is no constant, and no other input: each call fills it, and what
/// sessions share must stay as it is.
Status check_ends(const Graph& graph, std::string_view what);

/// That, and: every id is in range, and every node has arguments, of which the last is its output.
Status check_graph(const Graph& graph);

}  // namespace nibble
