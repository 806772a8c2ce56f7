// Rewrites of a graph, each in a file of its own. They change how many dispatches a call takes, not what it computes.
#pragma once

#include <span>

#include "graph/graph.hpp"
#include "graph/note.hpp"
#include "graph/stop.hpp"

namespace nibble {

/// What passes need to know in addition to the graph.
struct PassContext {
  /// Finds the signature of an op, for nodes that a pass makes.
  FindSignature signature;
  /// The largest size of a joined constant.
  std::uint64_t max_constant_bytes = 0;
  /// Asked between passes over large graphs.
  IsStopWanted is_stop_wanted = nullptr;
};

struct Pass {
  std::string_view name;
  void (*run)(Graph& graph, const PassContext& context);
  Note what;
};

/// In the order they run.
std::span<const Pass> passes();

/// All passes but those named in `without`; an unknown name is an error, and so is it to be stopped.
Status run_passes(Graph& graph, const PassContext& context, std::span<const std::string> without);

/// Replaces `et_vk.prepack` by its constant, so that its bytes are uploaded once. What a later op writes there stays
/// from call to call. Always runs, so it is not in the list.
Status fold_prepack(Graph& graph);

/// Splits norms whose weight is not one factor per column. Always runs: no kernel supports them.
void split_norms(Graph& graph, const PassContext& context);

/// Rearranges the weights of convolutions in nodes of their own. Always runs, too.
void split_filters(Graph& graph, const PassContext& context);

/// Stores KV caches in half precision: half their memory, and results that differ. Runs only with the option f16_cache,
/// so it is not in the list either.
void f16_caches(Graph& graph);

/// Appends a node that finds the `count` largest logits of the last token, and three outputs after the program's own:
/// the logits from the largest down, their tokens, and the sum of e^(logit - largest) over all. Runs only with the
/// option candidates. An error if no output can be logits.
Status add_candidates(Graph& graph, const PassContext& context, std::uint64_t count);

void drop_views(Graph& graph, const PassContext& context);
void round_inputs(Graph& graph, const PassContext& context);
void common_subexpressions(Graph& graph, const PassContext& context);
void offset_linears(Graph& graph, const PassContext& context);
void gate_up(Graph& graph, const PassContext& context);
void join_linears(Graph& graph, const PassContext& context);
void add_rms_norm(Graph& graph, const PassContext& context);
void rope_cache(Graph& graph, const PassContext& context);
void dead_values(Graph& graph, const PassContext& context);
void quantize_pairs(Graph& graph, const PassContext& context);
void batch_norm(Graph& graph, const PassContext& context);
void elementwise_chains(Graph& graph, const PassContext& context);
void epilogues(Graph& graph, const PassContext& context);

}  // namespace nibble
