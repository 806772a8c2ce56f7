// Graphs that stay well-formed, but that no exporter makes: lists are shared, inputs repeat, values are rewritten.
#pragma once

#include <algorithm>
#include <random>

#include "graph/graph.hpp"

namespace nibble::test {

class GraphMutator {
 public:
  GraphMutator(Graph& graph, std::uint32_t seed) : graph_(graph), random_(seed) {}

  void mutate(std::size_t edits) {
    for (std::size_t i = 0; i < edits && !graph_.nodes.empty(); ++i) {
      switch (draw(12)) {
        case 0: some_argument() = like(some_argument()); break;
        case 1: some_node().args.back() = like(some_node().args.back()); break;
        case 2: rewrite(); break;
        case 3: std::swap(some_node(), some_node()); break;
        case 4:
          graph_.nodes.insert(graph_.nodes.begin() + static_cast<std::ptrdiff_t>(draw(graph_.nodes.size())),
                              Node(some_node()));
          break;
        case 5:
          graph_.nodes.erase(graph_.nodes.begin() + static_cast<std::ptrdiff_t>(draw(graph_.nodes.size())));
          break;
        case 6: change_list(); break;
        case 7: change_end(draw(2) == 0 ? graph_.inputs : graph_.outputs); break;
        case 8: change_shape(); break;
        case 9: change_number(); break;
        case 10: view_and_rewrite(); break;
        case 11: write_in_place(); break;
        default: break;
      }
    }
    // Only an input can be fixed.
    for (ValueId v = 0; v < graph_.values.size(); ++v) {
      auto* tensor = graph_.tensor(v);
      if (tensor != nullptr && std::ranges::find(graph_.inputs, v) == graph_.inputs.end()) tensor->fixed = false;
    }
  }

 private:
  std::size_t draw(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_); }
  Node& some_node() { return graph_.nodes[draw(graph_.nodes.size())]; }
  ValueId& some_argument() {
    auto& args = some_node().args;
    return args[draw(args.size())];
  }
  ValueId some_value() { return static_cast<ValueId>(draw(graph_.values.size())); }

  /// A value of the same kind, mostly; for a tensor one of the same type and shape, if a few guesses find it.
  ValueId like(ValueId v) {
    ValueId kind = v;
    for (int i = 0; i < 64; ++i) {
      const ValueId other = some_value();
      if (graph_.values[other].index() != graph_.values[v].index()) continue;
      const auto* a = graph_.tensor(v);
      const auto* b = graph_.tensor(other);
      if (a == nullptr || (a->dtype == b->dtype && a->shape == b->shape)) return other;
      kind = other;
    }
    return draw(8) == 0 ? some_value() : kind;
  }

  /// A node writes what another reads, in place or not.
  void rewrite() {
    Node& node = some_node();
    const auto from = draw(2) == 0 ? node.args.front() : some_argument();
    if (graph_.values[from].index() == graph_.values[node.args.back()].index()) node.args.back() = from;
  }

  void change_list() {
    auto* list = std::get_if<ValueList>(&graph_.values[some_value()]);
    if (list == nullptr || list->items.empty()) return;
    auto& item = list->items[draw(list->items.size())];
    if (draw(4) == 0) {
      list->items.push_back(item);
    } else if (!std::holds_alternative<ValueList>(graph_.values[item])) {
      const auto other = like(item);
      if (!std::holds_alternative<ValueList>(graph_.values[other])) item = other;
    }
  }

  void change_end(std::vector<ValueId>& ends) {
    if (ends.empty()) return;
    if (draw(2) == 0) {
      ends[draw(ends.size())] = like(ends[draw(ends.size())]);
    } else {
      ends.push_back(like(ends[draw(ends.size())]));
    }
  }

  void change_shape() {
    auto* tensor = graph_.tensor(some_value());
    if (tensor == nullptr || tensor->constant >= 0) return;
    if (draw(2) == 0) {
      tensor->fixed = !tensor->fixed;
    } else if (tensor->shape.rank() != 0) {
      auto& size = tensor->shape[draw(tensor->shape.rank())];
      size = draw(2) == 0 ? 1 : std::min<std::int64_t>(size + 1, 64);
    }
  }

  void change_number() {
    const auto step = static_cast<std::int64_t>(draw(5)) - 2;
    auto& value = graph_.values[some_value()];
    if (auto* number = std::get_if<std::int64_t>(&value)) {
      *number = draw(8) == 0 ? -*number / 2 : std::clamp<std::int64_t>(*number, -1000, 1000) + step;
    } else if (auto* real = std::get_if<double>(&value)) {
      *real = *real / 2 + static_cast<double>(step);
    } else if (auto* flag = std::get_if<bool>(&value)) {
      *flag = !*flag;
    } else if (auto* list = std::get_if<IntList>(&value); list != nullptr && !list->empty()) {
      if (draw(6) == 0) list->push_back(list->front());
      auto& item = (*list)[draw(list->size())];
      item = std::clamp<std::int64_t>(item, -1000, 1000) + step;
    }
  }

  void insert(Node node, std::size_t at) {
    graph_.nodes.insert(graph_.nodes.begin() + static_cast<std::ptrdiff_t>(at), std::move(node));
  }
  ValueId add(Value value) {
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  /// A view of what a node reads takes its place there and at an output, and what it shows is written afterwards.
  void view_and_rewrite() {
    const auto at = draw(graph_.nodes.size());
    auto& arg = graph_.nodes[at].args[draw(graph_.nodes[at].args.size())];
    const auto* tensor = graph_.tensor(arg);
    if (tensor == nullptr) return;
    const ValueId source = arg;
    const Shape shape = tensor->shape;
    TensorValue shown = *tensor;
    shown.constant = shown.mem_obj = -1;
    const auto view = arg = add(shown);
    for (auto& out : graph_.outputs) {
      if (out == source && draw(2) == 0) out = view;
    }
    if (draw(2) == 0) add_in_place(source, source, at + draw(graph_.nodes.size() - at + 1));
    insert({"aten.view_copy.default", {source, add(IntList(shape.begin(), shape.end())), view}}, at);
  }

  /// What a node reads or writes is written again, somewhere behind it.
  void write_in_place() {
    const auto at = draw(graph_.nodes.size());
    const auto to = graph_.nodes[at].args[draw(graph_.nodes[at].args.size())];
    if (graph_.tensor(to) == nullptr) return;
    add_in_place(to, draw(2) == 0 ? to : like(to), at + 1 + draw(graph_.nodes.size() - at));
  }

  void add_in_place(ValueId to, ValueId other, std::size_t at) {
    insert({"aten.add.Tensor", {to, other, add(Value(std::int64_t{1})), to}}, at);
  }

  Graph& graph_;
  std::minstd_rand random_;
};

}  // namespace nibble::test
