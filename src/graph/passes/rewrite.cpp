#include "graph/passes/rewrite.hpp"

#include <algorithm>
#include <cassert>
#include <map>
#include <string_view>

namespace nibble {
namespace {

std::vector<std::uint32_t> count_sharers(const Graph& graph, std::span<const std::size_t> uses) {
  std::vector<std::uint32_t> first(graph.constants.size());
  std::map<std::string_view, std::uint32_t> named;
  for (std::uint32_t c = 0; c < first.size(); ++c) {
    const auto& key = graph.constants[c].key;
    first[c] = key.empty() ? c : named.emplace(key, c).first->second;
  }
  std::vector<std::uint32_t> sharers(first.size());
  for (ValueId v = 0; v < uses.size(); ++v) {
    const auto* tensor = graph.tensor(v);
    if (tensor != nullptr && tensor->constant >= 0 && uses[v] != 0) ++sharers[first[tensor->constant]];
  }
  for (std::size_t c = 0; c < sharers.size(); ++c) sharers[c] = sharers[first[c]];
  return sharers;
}

}  // namespace

Rewriter::Rewriter(Graph& graph, const PassContext& context)
    : graph_(graph),
      context_(context),
      uses_(graph.values.size()),
      writes_(graph.values.size()),
      producer_(graph.values.size(), -1),
      is_output_(graph.values.size()),
      is_input_(graph.values.size()),
      removed_(graph.nodes.size()),
      redirected_(graph.values.size()) {
  for (ValueId v = 0; v < redirected_.size(); ++v) redirected_[v] = v;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for_each_operand(graph, graph.nodes[n], [&](ValueId v, const Arg& arg) {
      if (!nibble::is_output(arg.role)) ++uses_[v];
      if (nibble::is_output(arg.role) || arg.role == Role::state) {
        ++writes_[v];
        producer_[v] = static_cast<std::int32_t>(n);
      }
    });
  }
  for (auto v : graph.outputs) {
    ++uses_[v];
    is_output_[v] = 1;
  }
  for (auto v : graph.inputs) is_input_[v] = 1;
  sharers_ = count_sharers(graph, uses_);
}

std::optional<std::size_t> Rewriter::producer(ValueId v) const {
  if (writes_[v] != 1 || is_input_[v] != 0) return {};
  if (const auto* tensor = graph_.tensor(v); tensor != nullptr && tensor->constant >= 0) return {};
  const auto n = static_cast<std::size_t>(producer_[v]);
  return removed_[n] != 0 ? std::nullopt : std::optional(n);
}

std::optional<std::size_t> Rewriter::producer(ValueId v, std::string_view op) const {
  const auto n = producer(v);
  return n && node(*n).op == op ? n : std::nullopt;
}

bool Rewriter::is_steady(ValueId v) const {
  const auto* tensor = graph_.tensor(v);
  const bool has_value = is_input_[v] != 0 || (tensor != nullptr && tensor->constant >= 0);
  return writes_[v] <= (has_value ? 0U : 1U);
}

bool Rewriter::is_constant(ValueId v) const {
  const auto* tensor = graph_.tensor(v);
  return tensor != nullptr && tensor->constant >= 0 && writes_[v] == 0 && is_input_[v] == 0;
}

bool Rewriter::is_private_constant(ValueId v) const {
  return is_constant(v) && uses_[v] == 1 && sharers_[graph_.tensor(v)->constant] == 1;
}

bool Rewriter::same(ValueId a, ValueId b) const {
  a = target(a);
  b = target(b);
  if (a == b) return true;
  const Value& x = graph_.values[a];
  const Value& y = graph_.values[b];
  if (x.index() != y.index()) return false;
  return std::visit(
      [&]<class T>(const T& value) {
        const auto& other = *std::get_if<T>(&y);
        if constexpr (std::is_same_v<T, Null>) {
          return true;
        } else if constexpr (std::is_same_v<T, TensorValue> || std::is_same_v<T, SymInt>) {
          return false;
        } else if constexpr (std::is_same_v<T, ValueList>) {
          return std::ranges::equal(value.items, other.items, [&](ValueId i, ValueId j) { return same(i, j); });
        } else {
          return value == other;
        }
      },
      x);
}

bool Rewriter::is_number(ValueId v, double number) const {
  const Value& value = graph_.values[v];
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer) == number;
  const auto* real = std::get_if<double>(&value);
  return real != nullptr && *real == number;
}

bool Rewriter::is_null(ValueId v) const { return std::holds_alternative<Null>(graph_.values[v]); }

ValueId Rewriter::add(Value value) {
  graph_.values.push_back(std::move(value));
  uses_.push_back(0);
  writes_.push_back(0);
  producer_.push_back(-1);
  is_output_.push_back(0);
  is_input_.push_back(0);
  redirected_.push_back(static_cast<ValueId>(graph_.values.size() - 1));
  return redirected_.back();
}

ValueId Rewriter::join(std::span<const ValueId> constants, DType dtype, Shape shape) {
  Constant joined;
  for (auto v : constants) {
    const auto c = static_cast<std::uint32_t>(graph_.tensor(v)->constant);
    const auto& parts = graph_.constants[c].parts;
    if (parts.empty()) joined.parts.push_back(c);
    joined.parts.insert(joined.parts.end(), parts.begin(), parts.end());
    joined.length += graph_.constants[c].length;
  }
  graph_.constants.push_back(std::move(joined));
  sharers_.push_back(1);
  return add(TensorValue{dtype, dtype, shape, static_cast<std::int32_t>(graph_.constants.size() - 1), -1});
}

Node Rewriter::make(std::string_view op, std::initializer_list<std::pair<std::string_view, ValueId>> args,
                    std::string origin) {
  Node node{.op = std::string(op), .args = {}, .origin = std::move(origin), .signature = context_.signature(op)};
  assert(node.signature != nullptr && "passes make nodes of ops that there are");
  std::optional<ValueId> null;
  for (const auto& arg : node.signature->args()) {
    const auto* given = std::ranges::find(args, arg.name, &std::pair<std::string_view, ValueId>::first);
    if (given == args.end() && !null) null = add(Null{});
    node.args.push_back(given != args.end() ? given->second : *null);
  }
  return node;
}

Node Rewriter::named_as(std::size_t n, Node node) const {
  if (node.origin.empty()) node.origin = graph_.nodes[n].name();
  return node;
}

void Rewriter::drop(std::size_t n) {
  remove(n);
  for_each_operand(graph_, graph_.nodes[n], [&](ValueId v, const Arg& arg) {
    if (!nibble::is_output(arg.role)) --uses_[v];
  });
}

ValueId Rewriter::target(ValueId v) const {
  while (redirected_[v] != v) v = redirected_[v];
  return v;
}

void Rewriter::redirect(ValueId from, ValueId to) {
  redirected_[from] = target(to);
  uses_[redirected_[from]] += uses_[from];
}

void Rewriter::finish() {
  for (auto& value : graph_.values) {
    if (auto* list = std::get_if<ValueList>(&value)) {
      for (auto& item : list->items) item = target(item);
    }
  }
  for (auto& v : graph_.outputs) v = target(v);
  std::vector<Node> nodes;
  auto next = inserted_.begin();
  const auto keep = [&](Node node) {
    for (auto& arg : node.args) arg = target(arg);
    nodes.push_back(std::move(node));
  };
  for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
    if (removed_[n] == 0) keep(std::move(graph_.nodes[n]));
    for (; next != inserted_.end() && next->first == n; ++next) keep(std::move(next->second));
  }
  graph_.nodes = std::move(nodes);
}

}  // namespace nibble
