#include "constraint/grammar_shape.hpp"

#include <algorithm>

namespace nibble::constraint {
namespace {

using Node = Grammar::Node;
using Edge = Grammar::Edge;
using Kind = Edge::Kind;
using Numbers = std::vector<std::uint32_t>;

/// Per node: whether the end of its rule can be reached from it without reading anything.
class Emptiness {
 public:
  explicit Emptiness(const Grammar& grammar)
      : grammar_(grammar), is_empty_(grammar.nodes.size()), into_(grammar.nodes.size()), named_(grammar.rules.size()) {
    std::vector<Numbers> rules_of(grammar.nodes.size());
    for (std::uint32_t rule = 0; rule < grammar.rules.size(); ++rule) {
      rules_of[grammar.rules[rule].start].push_back(rule);
    }
    for (Node from = 0; from < grammar.nodes.size(); ++from) {
      for (const auto& edge : grammar.nodes[from]) {
        if (edge.kind != Kind::byte) into_[edge.to].push_back({from, edge});
        if (edge.kind == Kind::rule) named_[edge.rule].push_back({from, edge});
      }
    }
    for (const auto& rule : grammar.rules) mark(rule.end);
    while (!marked_.empty()) {
      const auto node = marked_.back();
      marked_.pop_back();
      for (const auto& step : into_[node]) go_back(step);
      for (const auto rule : rules_of[node]) {
        for (const auto& step : named_[rule]) go_back(step);
      }
    }
  }

  bool of_rule(std::uint32_t rule) const { return is_empty_[grammar_.rules[rule].start]; }

 private:
  struct Step {
    Node from = 0;
    Edge edge;
  };

  void mark(Node node) {
    if (is_empty_[node]) return;
    is_empty_[node] = true;
    marked_.push_back(node);
  }

  void go_back(const Step& step) {
    if (is_empty_[step.edge.to] && (step.edge.kind == Kind::nothing || of_rule(step.edge.rule))) mark(step.from);
  }

  const Grammar& grammar_;
  std::vector<bool> is_empty_;
  std::vector<std::vector<Step>> into_;
  std::vector<std::vector<Step>> named_;
  std::vector<Node> marked_;
};

/// Per rule: those that it may begin with.
std::vector<Numbers> find_first_rules(const Grammar& grammar) {
  const Emptiness is_empty(grammar);
  std::vector<Numbers> first(grammar.rules.size());
  std::vector<bool> is_seen(grammar.nodes.size());
  for (std::size_t rule = 0; rule < first.size(); ++rule) {
    std::vector<Node> open{grammar.rules[rule].start};
    while (!open.empty()) {
      const auto node = open.back();
      open.pop_back();
      if (is_seen[node]) continue;
      is_seen[node] = true;
      for (const auto& edge : grammar.nodes[node]) {
        if (edge.kind == Kind::rule) first[rule].push_back(edge.rule);
        if (edge.kind == Kind::nothing || (edge.kind == Kind::rule && is_empty.of_rule(edge.rule))) {
          open.push_back(edge.to);
        }
      }
    }
  }
  return first;
}

}  // namespace

void shorten(Grammar& grammar) {
  constexpr Node kUnknown = 0xffffffff;
  std::vector<Node> past(grammar.nodes.size(), kUnknown);  // what each node leads to
  for (const auto& rule : grammar.rules) past[rule.end] = rule.end;
  std::vector<Node> way;
  const auto find = [&](Node node) {
    for (way.clear(); past[node] == kUnknown; node = grammar.nodes[node].front().to) {
      past[node] = node;  // also where a way leads back to itself
      const auto& edges = grammar.nodes[node];
      if (edges.size() != 1 || edges.front().kind != Kind::nothing) break;
      way.push_back(node);
    }
    for (const auto each : way) past[each] = past[node];
    return past[node];
  };
  for (Node node = 0; node < grammar.nodes.size(); ++node) find(node);
  for (auto& edges : grammar.nodes) {
    for (auto& edge : edges) edge.to = past[edge.to];
  }
  for (auto& rule : grammar.rules) rule.start = past[rule.start];
}

std::optional<std::uint32_t> find_endless_rule(const Grammar& grammar) {
  const auto first = find_first_rules(grammar);
  std::vector<Numbers> before(first.size());
  std::vector<std::size_t> left(first.size());
  Numbers done;
  for (std::uint32_t rule = 0; rule < first.size(); ++rule) {
    for (const auto next : first[rule]) before[next].push_back(rule);
    left[rule] = first[rule].size();
    if (left[rule] == 0) done.push_back(rule);
  }
  for (std::size_t i = 0; i < done.size(); ++i) {
    for (const auto rule : before[done[i]]) {
      if (--left[rule] == 0) done.push_back(rule);
    }
  }
  if (done.size() == first.size()) return {};
  // Each rule that is left begins with another one that is, so whoever goes on for long enough is in a circle.
  const auto is_left = [&](std::uint32_t rule) { return left[rule] > 0; };
  auto rule =
      static_cast<std::uint32_t>(std::ranges::find_if(left, [](auto count) { return count > 0; }) - left.begin());
  for (std::size_t i = 0; i < first.size(); ++i) rule = *std::ranges::find_if(first[rule], is_left);
  return rule;
}

}  // namespace nibble::constraint
