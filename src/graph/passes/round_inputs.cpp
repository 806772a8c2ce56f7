// A linear with 8-bit activations rounds its input, then it is a plain one. Said as two nodes, q, k and v share the
// rounding, and all that is done for plain linears is done for these.
#include "graph/passes/linears.hpp"

namespace nibble {

void round_inputs(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  for (std::size_t n = 0; n < rewriter.size(); ++n) {
    const Node node = rewriter.node(n);
    if (node.op != "et_vk.linear_dq8ca_q4gsw.default" || node.args.size() != 9) continue;
    // Input, its scales and zero points, weights, their sums and scales, group size, bias, output.
    const auto& a = node.args;
    const auto* x = graph.tensor(a[0]);
    if (x == nullptr || (x->dtype != DType::f32 && x->dtype != DType::f16)) continue;
    const ValueId rounded = rewriter.add(TensorValue{.shape = x->shape});
    rewriter.replace(n, {"nibble.round_rows", {a[0], a[1], a[2], rounded}});
    rewriter.insert_after(n, {std::string(kLinear), {rounded, a[3], a[5], a[6], a[7], a[8]}});
  }
  rewriter.finish();
}

}  // namespace nibble
