// Removes nodes that compute the same from the same values, such as the repeated choose_qparams of q, k and v.
#include <algorithm>
#include <limits>
#include <map>

#include "graph/passes/rewrite.hpp"

namespace nibble {
namespace {

constexpr ValueId kNoTensor = std::numeric_limits<ValueId>::max();

std::vector<ValueId> outputs_of(const Graph& graph, const Node& node) {
  const auto* list = std::get_if<ValueList>(&graph.values[node.out()]);
  return list != nullptr ? list->items : std::vector{node.out()};
}

bool is_steady(const Rewriter& rewriter, const Graph& graph, const Node& node) {
  bool all = true;
  for_each_operand(graph, node, [&](ValueId v, const Arg&) { all = all && rewriter.is_steady(v); });
  return all;
}

/// Two nodes never have the same output values, so compare their dtypes and shapes: a node may convert to its output's
/// type.
bool same_kind(const Graph& graph, ValueId a, ValueId b) {
  if (graph.values[a].index() != graph.values[b].index()) return false;
  const auto* x = graph.tensor(a);
  const auto* y = graph.tensor(b);
  return x == nullptr || (x->dtype == y->dtype && x->shape == y->shape);
}

}  // namespace

void common_subexpressions(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  // By op and first tensor: programs have many nodes of one op, but few of them read the same tensor.
  std::multimap<std::pair<std::string_view, ValueId>, std::size_t> seen;
  for (std::size_t n = 0; n < rewriter.size(); ++n) {
    const Node& node = rewriter.node(n);
    if (node.inputs().empty() || node.signature->mutates() || !is_steady(rewriter, graph, node)) continue;
    const auto mine = outputs_of(graph, node);
    if (!std::ranges::all_of(mine, [&](ValueId v) { return rewriter.producer(v) && !rewriter.is_output(v); })) continue;
    const ValueId first_arg = node.inputs().front();
    const ValueId source = graph.tensor(first_arg) != nullptr ? rewriter.target(first_arg) : kNoTensor;
    const auto [first, last] = seen.equal_range({node.op, source});
    const auto found = std::find_if(first, last, [&](const auto& entry) {
      const Node& other = rewriter.node(entry.second);
      if (!std::ranges::equal(other.inputs(), node.inputs(),
                              [&](ValueId a, ValueId b) { return rewriter.same(a, b); })) {
        return false;
      }
      return std::ranges::equal(outputs_of(graph, other), mine,
                                [&](ValueId a, ValueId b) { return same_kind(graph, a, b); });
    });
    if (found == last) {
      seen.emplace(std::pair{std::string_view(node.op), source}, n);
      continue;
    }
    const auto theirs = outputs_of(graph, rewriter.node(found->second));
    for (std::size_t i = 0; i < mine.size(); ++i) rewriter.redirect(mine[i], theirs[i]);
    rewriter.remove(n);
  }
  rewriter.finish();
}

}  // namespace nibble
