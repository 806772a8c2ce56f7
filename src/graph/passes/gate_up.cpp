// The feed-forward of a Llama layer: silu(gate(x)) * up(x), where silu arrives as a sigmoid and a product. Both linears
// become one, whose epilogue does the rest. So no wide intermediate is written to memory.
#include "graph/passes/linears.hpp"

namespace nibble {
namespace {

constexpr std::string_view kMul = "aten.mul.Tensor";
constexpr std::string_view kSigmoid = "aten.sigmoid.default";

/// The linear that makes `v`, if `v` has this many uses.
std::optional<Linear> linear_of(const Rewriter& rewriter, const Graph& graph, ValueId v, std::size_t uses) {
  const auto n = rewriter.producer(v);
  if (!n || rewriter.uses(v) != uses || rewriter.is_output(v)) return {};
  return joinable_linear(rewriter, graph, *n);
}

struct Gate {
  Linear linear;
  std::size_t sigmoid = 0;
  std::size_t product = 0;
};

/// The operands of a product, in both orders.
std::array<std::pair<ValueId, ValueId>, 2> either_way(const Node& product) {
  const ValueId a = product["self"];
  const ValueId b = product["other"];
  return {{{a, b}, {b, a}}};
}

/// The gate, if v = g * sigmoid(g) and v has one use.
std::optional<Gate> gate_of(const Rewriter& rewriter, const Graph& graph, ValueId v) {
  const auto product = rewriter.producer(v, kMul);
  if (!product || rewriter.uses(v) != 1 || rewriter.is_output(v)) return {};
  for (const auto& [g, s] : either_way(rewriter.node(*product))) {
    const auto sigmoid = rewriter.producer(s, kSigmoid);
    if (!sigmoid || rewriter.node(*sigmoid)["self"] != g || rewriter.uses(s) != 1 || rewriter.is_output(s)) continue;
    if (const auto linear = linear_of(rewriter, graph, g, 2)) return Gate{*linear, *sigmoid, *product};
  }
  return {};
}

}  // namespace

void gate_up(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  for (std::size_t n = 0; n < rewriter.size(); ++n) {
    if (rewriter.is_removed(n) || rewriter.node(n).op != kMul) continue;
    const ValueId out = rewriter.node(n)["out"];
    for (const auto& [a, b] : either_way(rewriter.node(n))) {
      const auto gate = gate_of(rewriter, graph, a);
      const auto up = linear_of(rewriter, graph, b, 1);
      if (!gate || !up) continue;
      const std::array both = {gate->linear, *up};
      const auto* wide = graph.tensor(out);
      if (!can_join(rewriter, graph, context, both) || wide == nullptr || !rewriter.producer(out)) continue;
      const auto& narrow = *graph.tensor(gate->linear.out);
      if (graph.tensor(gate->linear.weight)->shape[0] != graph.tensor(up->weight)->shape[0]) continue;
      if (!(wide->shape == narrow.shape) || wide->dtype != narrow.dtype) continue;
      const auto name = std::string(rewriter.node(up->node).name());
      for (auto gone : {gate->linear.node, gate->sigmoid, gate->product, up->node}) rewriter.remove(gone);
      rewriter.replace(n, join(rewriter, "nibble.linear_q4gsw_gated", both, out, name));
      break;
    }
  }
  rewriter.finish();
}

}  // namespace nibble
