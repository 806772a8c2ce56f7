// Removes nodes whose results nobody reads. If a node has several results, the unused ones become Null.
#include <algorithm>

#include "graph/passes/rewrite.hpp"

namespace nibble {

void dead_values(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  std::optional<ValueId> null;
  // From the end, because a removed node no longer reads its inputs: earlier nodes may then be unused too.
  for (std::size_t n = rewriter.size(); n-- > 0;) {
    const Node& node = rewriter.node(n);
    if (node.signature->mutates()) continue;
    const ValueId last = node.out();
    const auto is_dead = [&](ValueId v) { return rewriter.producer(v) && rewriter.uses(v) == 0; };
    auto* list = std::get_if<ValueList>(&graph.values[last]);
    if (list == nullptr ? is_dead(last) : !list->items.empty() && std::ranges::all_of(list->items, [&](ValueId v) {
          return rewriter.is_null(v) || is_dead(v);
        })) {
      rewriter.drop(n);
      continue;
    }
    if (list == nullptr || rewriter.uses(last) != 0) continue;
    std::vector<ValueId> items = list->items;
    for (auto& item : items) {
      if (!is_dead(item)) continue;
      if (!null) null = rewriter.add(Null{});
      item = *null;
    }
    std::get_if<ValueList>(&graph.values[last])->items = std::move(items);
  }
  rewriter.finish();
}

}  // namespace nibble
