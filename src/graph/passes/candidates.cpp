// Appends what finds the tokens with the largest logits, so that not all of them must be read back.
#include <algorithm>

#include "graph/passes/rewrite.hpp"

namespace nibble {
namespace {

/// One row of floats for each token of one text: [1, V], [S, V] or [1, S, V].
bool has_logits(const TensorValue* tensor) {
  if (tensor == nullptr || (tensor->dtype != DType::f32 && tensor->dtype != DType::f16)) return false;
  const auto dims = tensor->shape.dims();
  return !dims.empty() && dims.back() > 0 &&
         (dims.size() < 3 || std::ranges::all_of(dims.first(dims.size() - 2), [](auto d) { return d == 1; }));
}

}  // namespace

Status add_candidates(Graph& graph, const PassContext& context, std::uint64_t count) {
  constexpr std::uint64_t kMost = 1024;
  if (count > kMost) return fail(ErrorCode::invalid_argument, "candidates is {}, but the most is {}", count, kMost);
  const auto logits = std::ranges::find_if(graph.outputs, [&](ValueId v) { return has_logits(graph.tensor(v)); });
  if (logits == graph.outputs.end()) {
    return fail(ErrorCode::invalid_argument,
                "candidates is {}, but no output of the program is float logits of one text", count);
  }
  const auto self = *logits;
  graph.candidates_of = static_cast<std::size_t>(logits - graph.outputs.begin());
  const auto found = std::min<std::int64_t>(static_cast<std::int64_t>(count), graph.tensor(self)->shape.dims().back());
  Rewriter rewriter(graph, context);
  ValueList outs;
  for (const auto& [dtype, size] : {std::pair(DType::f32, found), {DType::i32, found}, {DType::f32, std::int64_t{1}}}) {
    outs.items.push_back(rewriter.add(TensorValue{.dtype = dtype, .staging = dtype, .shape = {size}}));
    graph.outputs.push_back(outs.items.back());
  }
  graph.added_outputs = outs.items.size();
  const auto number = rewriter.add(static_cast<std::int64_t>(count));
  const auto out = rewriter.add(std::move(outs));
  graph.nodes.push_back(rewriter.make("nibble.top_candidates", {{"self", self}, {"count", number}, {"out", out}}));
  return {};
}

}  // namespace nibble
