// The exporter takes whatever multiplies a norm for its weight: a gate, a number, one factor per row. If it is not one
// factor per column, multiply afterwards in a node of its own.
#include <algorithm>

#include "graph/passes/rewrite.hpp"

namespace nibble {
namespace {

/// Whether the weight is one factor per column of x.
bool is_row(const Shape& weight, const Shape& x) {
  if (weight.rank() == 0 || weight.rank() > x.rank() || weight[weight.rank() - 1] != x[x.rank() - 1]) return false;
  return std::all_of(weight.begin(), weight.end() - 1, [](std::int64_t size) { return size == 1; });
}

}  // namespace

void split_norms(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  for (std::size_t n = 0; n < rewriter.size(); ++n) {
    const Node node = rewriter.node(n);
    if (node.op != "et_vk.rms_norm.default") continue;
    const auto* x = graph.tensor(node["x"]);
    const auto* weight = graph.tensor(node["weight"]);
    if (x == nullptr || weight == nullptr || x->shape.rank() == 0 || is_row(weight->shape, x->shape)) continue;
    const ValueId normed = rewriter.add(TensorValue{.dtype = x->dtype, .staging = x->dtype, .shape = x->shape});
    rewriter.replace(n, rewriter.make(node.op, {{"x", node["x"]}, {"eps", node["eps"]}, {"out", normed}}));
    rewriter.insert_after(
        n, rewriter.make("aten.mul.Tensor", {{"self", normed}, {"other", node["weight"]}, {"out", node["out"]}}));
  }
  rewriter.finish();
}

}  // namespace nibble
