// Removes views that keep the shape. The exporter leaves eight of them in a transformer layer. Without them, later
// passes find their patterns.
#include <algorithm>
#include <array>

#include "graph/passes/rewrite.hpp"

namespace nibble {
namespace {

constexpr std::array<std::string_view, 6> kViews = {
    "aten.view_copy.default",  "aten.clone.default",     "dim_order_ops._clone_dim_order.default",
    "aten.alias_copy.default", "aten.squeeze_copy.dims", "aten.unsqueeze_copy.default"};

/// If at most one size of the view is a SymInt, equal bounds mean equal live shapes: the view keeps the number of
/// elements, and its other sizes are those of the source. (Live shapes could differ if two sizes of the source are
/// dynamic. But then the exporter would have to know that their product is divisible by the fixed sizes, and no range
/// of sizes says so.)
bool keeps_shape(const Graph& graph, const Node& node) {
  if (node.op != "aten.view_copy.default") return true;
  const auto* list = std::get_if<ValueList>(&graph.values[node["size"]]);
  if (list == nullptr) return true;
  return std::ranges::count_if(list->items,
                               [&](ValueId v) { return std::holds_alternative<SymInt>(graph.values[v]); }) <= 1;
}

}  // namespace

void drop_views(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  for (std::size_t n = 0; n < rewriter.size(); ++n) {
    const Node& node = rewriter.node(n);
    if (std::ranges::find(kViews, node.op) == kViews.end()) continue;
    const ValueId in = node["self"];
    const ValueId out = node["out"];
    const auto* from = graph.tensor(in);
    const auto* to = graph.tensor(out);
    if (from == nullptr || to == nullptr || from->dtype != to->dtype || !(from->shape == to->shape)) continue;
    if (!rewriter.is_steady(in) || !rewriter.producer(out) || rewriter.is_output(out) || !keeps_shape(graph, node)) {
      continue;
    }
    rewriter.redirect(out, in);
    rewriter.remove(n);
  }
  rewriter.finish();
}

}  // namespace nibble
