// Rewrites of a graph, each in a file of its own. They change how many dispatches a call takes, never what it computes.
#pragma once

#include <span>

#include "graph/graph.hpp"
#include "graph/note.hpp"

namespace nibble {

/// What passes need to know about the world.
struct PassContext {
  /// Of the ops that passes make nodes of.
  FindSignature signature;
  /// The most that constants may take when they are joined.
  std::uint64_t max_constant_bytes = 0;
};

struct Pass {
  std::string_view name;
  void (*run)(Graph& graph, const PassContext& context);
  Note what;
};

/// In the order they run.
std::span<const Pass> passes();

/// All passes but those named in `without`; an unknown name is an error.
Status run_passes(Graph& graph, const PassContext& context, std::span<const std::string> without);

/// `et_vk.prepack` copies a constant once, at load. Its output becomes that constant, so its bytes reach their buffer
/// by one transfer, and what a later op writes there stays from call to call. Not optional, so not in the list.
Status fold_prepack(Graph& graph);

/// Norms whose weight is more than a factor for each column. Not optional either: no kernel has them.
void split_norms(Graph& graph, const PassContext& context);

/// KV caches are stored in half precision: half their memory, and results that differ. Not in the list either.
void f16_caches(Graph& graph);

void drop_views(Graph& graph, const PassContext& context);
void round_inputs(Graph& graph, const PassContext& context);
void common_subexpressions(Graph& graph, const PassContext& context);
void gate_up(Graph& graph, const PassContext& context);
void join_linears(Graph& graph, const PassContext& context);
void add_rms_norm(Graph& graph, const PassContext& context);
void rope_cache(Graph& graph, const PassContext& context);
void dead_values(Graph& graph, const PassContext& context);

}  // namespace nibble
