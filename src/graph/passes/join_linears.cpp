// Linears of one input, two or three at a time, become one that writes all their outputs: one dispatch instead of
// three, and enough threads for a GPU even where k and v are narrow.
#include <map>

#include "graph/passes/linears.hpp"

namespace nibble {

void join_linears(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  // Those with offsets are joined with each other.
  std::map<std::pair<ValueId, bool>, std::vector<Linear>> by_input;
  std::vector<std::pair<ValueId, bool>> order;
  for (std::size_t n = 0; n < rewriter.size(); ++n) {
    if (const auto linear = joinable_linear(rewriter, graph, n)) {
      const std::pair key(linear->x, linear->has_offsets);
      auto& group = by_input[key];
      if (group.empty()) order.push_back(key);
      group.push_back(*linear);
    }
  }
  constexpr std::size_t kMost = 3;  // outputs that fit into one dispatch's bindings
  for (const auto& key : order) {
    std::span<const Linear> rest = by_input[key];
    while (rest.size() >= 2) {
      const auto group = rest.first(std::min(kMost, rest.size()));
      rest = rest.subspan(group.size());
      if (!can_join(rewriter, graph, context, group)) continue;
      std::vector<ValueId> outs;
      for (const auto& one : group) outs.push_back(one.out);
      for (const auto& one : group.subspan(1)) rewriter.remove(one.node);
      const ValueId list = rewriter.add(ValueList{std::move(outs)});
      rewriter.replace(group[0].node, join(rewriter, "nibble.linear_q4gsw_parts", group, list));
    }
  }
  rewriter.finish();
}

}  // namespace nibble
