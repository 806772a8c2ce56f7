// Joins a residual sum and its norm into one op: the norm takes the sum from registers, not from memory.
#include "graph/passes/rewrite.hpp"

namespace nibble {

void add_rms_norm(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  for (std::size_t n = 0; n < rewriter.size(); ++n) {
    const Node norm = rewriter.node(n);
    if (norm.op != "et_vk.rms_norm.default") continue;
    const auto n_add = rewriter.producer(norm["x"], "aten.add.Tensor");
    if (!n_add || !rewriter.is_constant(norm["weight"]) || !rewriter.producer(norm["out"])) continue;
    if (std::holds_alternative<SymInt>(graph.values[norm["eps"]])) continue;
    const Node add = rewriter.node(*n_add);
    const auto* a = graph.tensor(add["self"]);
    const auto* b = graph.tensor(add["other"]);
    const auto* sum = graph.tensor(add["out"]);
    const auto* out = graph.tensor(norm["out"]);
    if (a == nullptr || b == nullptr || sum == nullptr || out == nullptr || !rewriter.is_number(add["alpha"], 1)) {
      continue;
    }
    if (!(a->shape == b->shape) || !(a->shape == sum->shape) || !(out->shape == sum->shape)) continue;
    if (a->dtype != b->dtype || a->dtype != sum->dtype || out->dtype != sum->dtype) continue;
    const ValueId outs = rewriter.add(ValueList{{add["out"], norm["out"]}});
    // The new node takes the place of the sum, because other nodes may read the sum before the norm.
    rewriter.replace(
        *n_add,
        rewriter.make(
            "nibble.add_rms_norm",
            {{"a", add["self"]}, {"b", add["other"]}, {"weight", norm["weight"]}, {"eps", norm["eps"]}, {"out", outs}},
            "aten.add.Tensor with et_vk.rms_norm.default"));
    rewriter.remove(n);
  }
  rewriter.finish();
}

}  // namespace nibble
