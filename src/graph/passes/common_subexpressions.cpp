// Removes nodes that compute the same from the same values, such as the repeated choose_qparams of q, k and v.
#include <algorithm>
#include <bit>
#include <map>

#include "graph/passes/rewrite.hpp"

namespace nibble {
namespace {

/// What a node computes from what, as numbers. Nodes with equal keys have equal results. A key is as long as all that
/// the node uses, so that finding equal ones takes no comparison of each node with each.
using Key = std::vector<std::uint64_t>;

template <class T>
std::uint64_t bits_of(T number) {
  if constexpr (std::is_same_v<T, double>) return std::bit_cast<std::uint64_t>(number);
  return static_cast<std::uint64_t>(number);
}

void add_input(const Rewriter& rewriter, ValueId v, Key& key) {
  v = rewriter.target(v);
  const Value& value = rewriter.graph().values[v];
  key.push_back(value.index());
  std::visit(
      [&]<class T>(const T& one) {
        if constexpr (std::is_same_v<T, TensorValue> || std::is_same_v<T, SymInt>) {
          key.push_back(v);
        } else if constexpr (std::is_same_v<T, ValueList>) {
          key.push_back(one.items.size());
          for (auto item : one.items) add_input(rewriter, item, key);
        } else if constexpr (requires { one.size(); }) {
          key.push_back(one.size());
          for (const auto item : one) key.push_back(bits_of(item));
        } else if constexpr (!std::is_same_v<T, Null>) {
          key.push_back(bits_of(one));
        }
      },
      value);
}

/// Two nodes never have the same output values, so their dtypes and shapes count: a node may convert to its output's
/// type.
void add_output(const Graph& graph, ValueId v, Key& key) {
  key.push_back(graph.values[v].index());
  const auto* tensor = graph.tensor(v);
  if (tensor == nullptr) return;
  key.push_back(bits_of(tensor->dtype));
  key.push_back(tensor->shape.rank());
  for (auto size : tensor->shape) key.push_back(bits_of(size));
}

std::vector<ValueId> outputs_of(const Graph& graph, const Node& node) {
  const auto* list = std::get_if<ValueList>(&graph.values[node.out()]);
  return list != nullptr ? list->items : std::vector{node.out()};
}

bool is_steady(const Rewriter& rewriter, const Graph& graph, const Node& node) {
  bool all = true;
  for_each_operand(graph, node, [&](ValueId v, const Arg&) { all = all && rewriter.is_steady(v); });
  return all;
}

}  // namespace

void common_subexpressions(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  std::map<Key, std::size_t> seen;
  for (std::size_t n = 0; n < rewriter.size(); ++n) {
    const Node& node = rewriter.node(n);
    if (node.inputs().empty() || node.signature->mutates() || !is_steady(rewriter, graph, node)) continue;
    const auto mine = outputs_of(graph, node);
    if (!std::ranges::all_of(mine, [&](ValueId v) { return rewriter.producer(v) && !rewriter.is_output(v); })) continue;
    Key key{reinterpret_cast<std::uintptr_t>(node.signature)};
    for (auto v : node.inputs()) add_input(rewriter, v, key);
    for (auto v : mine) add_output(graph, v, key);
    const auto [found, is_new] = seen.emplace(std::move(key), n);
    if (is_new) continue;
    const auto theirs = outputs_of(graph, rewriter.node(found->second));
    for (std::size_t i = 0; i < mine.size(); ++i) rewriter.redirect(mine[i], theirs[i]);
    rewriter.remove(n);
  }
  rewriter.finish();
}

}  // namespace nibble
