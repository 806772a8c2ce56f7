// The feed-forward of a Llama layer: silu(gate(x)) * up(x), where silu arrives as a sigmoid and a product. Both linears
// become one whose epilogue does the rest, so neither wide intermediate is ever in memory.
#include "graph/passes/linears.hpp"

namespace nibble {
namespace {

constexpr std::string_view kMul = "aten.mul.Tensor";
constexpr std::string_view kSigmoid = "aten.sigmoid.default";

/// The linear whose output `v` is, if just these many read it.
std::optional<Linear> linear_of(const Rewriter& rewriter, const Graph& graph, ValueId v, std::size_t reads) {
  const auto n = rewriter.maker(v);
  if (!n || rewriter.reads(v) != reads || rewriter.is_output(v)) return {};
  return joinable_linear(rewriter, graph, *n);
}

struct Gate {
  Linear linear;
  std::size_t sigmoid = 0;
  std::size_t product = 0;
};

/// v = g * sigmoid(g), read once.
std::optional<Gate> gate_of(const Rewriter& rewriter, const Graph& graph, ValueId v) {
  const auto product = rewriter.maker(v, kMul, 3);
  if (!product || rewriter.reads(v) != 1 || rewriter.is_output(v)) return {};
  const auto& args = rewriter.node(*product).args;
  for (const auto& [g, s] : {std::pair{args[0], args[1]}, std::pair{args[1], args[0]}}) {
    const auto sigmoid = rewriter.maker(s, kSigmoid, 2);
    if (!sigmoid || rewriter.node(*sigmoid).args[0] != g || rewriter.reads(s) != 1 || rewriter.is_output(s)) continue;
    if (const auto linear = linear_of(rewriter, graph, g, 2)) return Gate{*linear, *sigmoid, *product};
  }
  return {};
}

}  // namespace

void gate_up(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  for (std::size_t n = 0; n < rewriter.size(); ++n) {
    if (rewriter.is_removed(n) || rewriter.node(n).op != kMul || rewriter.node(n).args.size() != 3) continue;
    const auto args = rewriter.node(n).args;
    for (const auto& [a, b] : {std::pair{args[0], args[1]}, std::pair{args[1], args[0]}}) {
      const auto gate = gate_of(rewriter, graph, a);
      const auto up = linear_of(rewriter, graph, b, 1);
      if (!gate || !up) continue;
      const std::array both = {gate->linear, *up};
      const ValueId out = args[2];
      const auto* wide = graph.tensor(out);
      if (!can_join(rewriter, graph, context, both) || wide == nullptr || !rewriter.maker(out)) continue;
      const auto& narrow = *graph.tensor(gate->linear.out);
      if (graph.tensor(gate->linear.weight)->shape[0] != graph.tensor(up->weight)->shape[0]) continue;
      if (!(wide->shape == narrow.shape) || wide->dtype != narrow.dtype) continue;
      auto joined = join_arguments(rewriter, both);
      joined.push_back(out);
      for (auto gone : {gate->linear.node, gate->sigmoid, gate->product, up->node}) rewriter.remove(gone);
      rewriter.replace(n,
                       {"nibble.linear_q4gsw_gated", std::move(joined), std::string(rewriter.node(up->node).name())});
      break;
    }
  }
  rewriter.finish();
}

}  // namespace nibble
