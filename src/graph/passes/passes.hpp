// Rewrites of a graph, each in a file of its own.
#pragma once

#include "graph/graph.hpp"

namespace nibble {

/// `et_vk.prepack` copies a constant once, at load. Its output becomes that constant, so its bytes reach their buffer
/// by one transfer, and what a later op writes there stays from call to call.
Status fold_prepack(Graph& graph);

}  // namespace nibble
