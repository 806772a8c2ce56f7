// A residual and the norm of it: the sum is read back from a register, not from memory.
#include "graph/passes/rewrite.hpp"

namespace nibble {

void add_rms_norm(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  for (std::size_t n = 0; n < rewriter.size(); ++n) {
    const Node norm = rewriter.node(n);
    if (norm.op != "et_vk.rms_norm.default" || norm.args.size() != 4) continue;
    const auto add = rewriter.maker(norm.args[0], "aten.add.Tensor", 4);
    if (!add || !rewriter.is_constant(norm.args[1]) || !rewriter.maker(norm.args[3])) continue;
    const auto args = rewriter.node(*add).args;
    const auto* a = graph.tensor(args[0]);
    const auto* b = graph.tensor(args[1]);
    const auto* sum = graph.tensor(args[3]);
    const auto* out = graph.tensor(norm.args[3]);
    if (a == nullptr || b == nullptr || sum == nullptr || out == nullptr || !rewriter.is_number(args[2], 1)) continue;
    if (!(a->shape == b->shape) || !(a->shape == sum->shape) || !(out->shape == sum->shape)) continue;
    if (a->dtype != b->dtype || a->dtype != sum->dtype || out->dtype != sum->dtype) continue;
    const ValueId outs = rewriter.add(ValueList{{args[3], norm.args[3]}});
    // In the place of the sum, because somebody may read that before the norm.
    rewriter.replace(*add, {"nibble.add_rms_norm",
                            {args[0], args[1], norm.args[1], norm.args[2], outs},
                            "aten.add.Tensor with et_vk.rms_norm.default"});
    rewriter.remove(n);
  }
  rewriter.finish();
}

}  // namespace nibble
