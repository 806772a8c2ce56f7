// Splits a linear with 8-bit activations into a rounding of its input and a plain linear. Then q, k and v share the
// rounding, and the passes for plain linears apply.
#include "graph/passes/linears.hpp"

namespace nibble {

void round_inputs(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  for (std::size_t n = 0; n < rewriter.size(); ++n) {
    const Node node = rewriter.node(n);
    if (node.op != "et_vk.linear_dq8ca_q4gsw.default") continue;
    const auto* x = graph.tensor(node["input"]);
    if (x == nullptr || (x->dtype != DType::f32 && x->dtype != DType::f16)) continue;
    const ValueId rounded = rewriter.add(TensorValue{.shape = x->shape});
    rewriter.replace(n, rewriter.make("nibble.round_rows", {{"self", node["input"]},
                                                            {"scales", node["input_scales"]},
                                                            {"zero_points", node["input_zp"]},
                                                            {"out", rounded}}));
    rewriter.insert_after(n, rewriter.make(kLinear, {{"self", rounded},
                                                     {"weights", node["weights"]},
                                                     {"weight_scales", node["weight_scales"]},
                                                     {"group_size", node["group_size"]},
                                                     {"bias", node["bias"]},
                                                     {"out", node["out"]}}));
  }
  rewriter.finish();
}

}  // namespace nibble
