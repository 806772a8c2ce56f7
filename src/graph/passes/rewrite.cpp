#include "graph/passes/rewrite.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace nibble {
namespace {

template <class F>
void for_each_item(const Graph& graph, ValueId v, F&& f) {
  f(v);
  if (const auto* list = std::get_if<ValueList>(&graph.values[v])) {
    for (auto item : list->items) f(item);
  }
}

std::vector<std::uint32_t> count_users(const Graph& graph, std::span<const std::size_t> reads) {
  std::vector<std::uint32_t> first(graph.constants.size());
  std::unordered_map<std::string_view, std::uint32_t> named;
  for (std::uint32_t c = 0; c < first.size(); ++c) {
    const auto& key = graph.constants[c].key;
    first[c] = key.empty() ? c : named.emplace(key, c).first->second;
  }
  std::vector<std::uint32_t> users(first.size());
  for (ValueId v = 0; v < reads.size(); ++v) {
    const auto* tensor = graph.tensor(v);
    if (tensor != nullptr && tensor->constant >= 0 && reads[v] != 0) ++users[first[tensor->constant]];
  }
  for (std::size_t c = 0; c < users.size(); ++c) users[c] = users[first[c]];
  return users;
}

}  // namespace

Rewriter::Rewriter(Graph& graph, const PassContext& context)
    : graph_(graph),
      reads_(graph.values.size()),
      writes_(graph.values.size()),
      maker_(graph.values.size(), -1),
      is_output_(graph.values.size()),
      is_input_(graph.values.size()),
      removed_(graph.nodes.size()),
      redirected_(graph.values.size()) {
  for (ValueId v = 0; v < redirected_.size(); ++v) redirected_[v] = v;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto& args = graph.nodes[n].args;
    const auto mutates = context.mutates(graph.nodes[n].op);
    for (std::size_t i = 0; i < args.size(); ++i) {
      const bool is_last = i + 1 == args.size();
      if (!is_last) for_each_item(graph, args[i], [&](ValueId v) { ++reads_[v]; });
      if (is_last || (i < 32 && ((mutates >> i) & 1U) != 0)) {
        for_each_item(graph, args[i], [&](ValueId v) {
          ++writes_[v];
          maker_[v] = static_cast<std::int32_t>(n);
        });
      }
    }
  }
  for (auto v : graph.outputs) {
    ++reads_[v];
    is_output_[v] = 1;
  }
  for (auto v : graph.inputs) is_input_[v] = 1;
  users_ = count_users(graph, reads_);
}

std::optional<std::size_t> Rewriter::maker(ValueId v) const {
  if (writes_[v] != 1 || is_input_[v] != 0) return {};
  if (const auto* tensor = graph_.tensor(v); tensor != nullptr && tensor->constant >= 0) return {};
  const auto n = static_cast<std::size_t>(maker_[v]);
  return removed_[n] != 0 ? std::nullopt : std::optional(n);
}

std::optional<std::size_t> Rewriter::maker(ValueId v, std::string_view op, std::size_t args) const {
  const auto n = maker(v);
  return n && node(*n).op == op && node(*n).args.size() == args ? n : std::nullopt;
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
  return is_constant(v) && reads_[v] == 1 && users_[graph_.tensor(v)->constant] == 1;
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
  reads_.push_back(0);
  writes_.push_back(0);
  maker_.push_back(-1);
  is_output_.push_back(0);
  is_input_.push_back(0);
  redirected_.push_back(static_cast<ValueId>(graph_.values.size() - 1));
  return redirected_.back();
}

ValueId Rewriter::join(std::span<const ValueId> constants, DType dtype, Shape shape) {
  Constant joined;
  for (auto v : constants) {
    const auto part = static_cast<std::uint32_t>(graph_.tensor(v)->constant);
    joined.parts.push_back(part);
    joined.length += graph_.constants[part].length;
  }
  graph_.constants.push_back(std::move(joined));
  users_.push_back(1);
  return add(TensorValue{dtype, dtype, shape, static_cast<std::int32_t>(graph_.constants.size() - 1), -1});
}

Node Rewriter::named_as(std::size_t n, Node node) const {
  if (node.origin.empty()) node.origin = graph_.nodes[n].name();
  return node;
}

void Rewriter::drop(std::size_t n) {
  remove(n);
  const auto& args = graph_.nodes[n].args;
  for (std::size_t i = 0; i + 1 < args.size(); ++i) for_each_item(graph_, args[i], [&](ValueId v) { --reads_[v]; });
}

ValueId Rewriter::target(ValueId v) const {
  while (redirected_[v] != v) v = redirected_[v];
  return v;
}

void Rewriter::redirect(ValueId from, ValueId to) {
  redirected_[from] = target(to);
  reads_[redirected_[from]] += reads_[from];
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
