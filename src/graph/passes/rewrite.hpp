// What passes share: who produces and who uses a value, and how nodes are replaced.
#pragma once

#include <map>
#include <optional>

#include "graph/passes/passes.hpp"

namespace nibble {

/// Answers questions about a graph and collects changes to it, which finish() carries out.
class Rewriter {
 public:
  Rewriter(Graph& graph, const PassContext& context);

  Graph& graph() const { return graph_; }
  std::size_t size() const { return graph_.nodes.size(); }
  const Node& node(std::size_t n) const { return graph_.nodes[n]; }

  /// The only node that writes the value; nothing for inputs, constants and values that are written more than once.
  std::optional<std::size_t> producer(ValueId v) const;
  /// The producer, if it is a node of this op.
  std::optional<std::size_t> producer(ValueId v, std::string_view op) const;
  /// How many node arguments and program outputs read the value.
  std::size_t uses(ValueId v) const { return uses_[v]; }
  bool is_output(ValueId v) const { return is_output_[v] != 0; }
  /// Nothing but its producer, if it has one, writes the value. So every reader sees the same.
  bool is_steady(ValueId v) const;
  /// The value is a constant that no node changes.
  bool is_constant(ValueId v) const;
  /// A constant with one use and no other tensor on its bytes: a pass may join it.
  bool is_private_constant(ValueId v) const;
  /// Whether both are the same value, or equal numbers, strings or lists of such.
  bool same(ValueId a, ValueId b) const;
  bool is_number(ValueId v, double number) const;
  bool is_null(ValueId v) const;
  bool is_removed(std::size_t n) const { return removed_[n] != 0; }

  ValueId add(Value value);
  /// A new constant that consists of the bytes of these, in order.
  ValueId join(std::span<const ValueId> constants, DType dtype, Shape shape);
  /// Makes a node with arguments by name; the others are Null. Errors call it `origin`, if given.
  Node make(std::string_view op, std::initializer_list<std::pair<std::string_view, ValueId>> args,
            std::string origin = {});
  void remove(std::size_t n) { removed_[n] = 1; }
  /// Removes an unused node and releases its uses of other values.
  void drop(std::size_t n);
  /// Errors give the new node the name of the old one, unless it has an origin.
  void replace(std::size_t n, Node node) { graph_.nodes[n] = named_as(n, std::move(node)); }
  /// Puts a node after node n. Errors give it the name of node n, unless it has an origin.
  void insert_after(std::size_t n, Node node) { inserted_.emplace(n, named_as(n, std::move(node))); }
  /// The value that replaces `v` after redirects.
  ValueId target(ValueId v) const;
  /// Every reader of `from` reads `to` from now on.
  void redirect(ValueId from, ValueId to);

  void finish();

 private:
  Node named_as(std::size_t n, Node node) const;

  Graph& graph_;
  const PassContext& context_;
  std::vector<std::size_t> uses_;
  std::vector<std::uint32_t> writes_;
  std::vector<std::int32_t> producer_;
  std::vector<std::uint8_t> is_output_;
  std::vector<std::uint8_t> is_input_;
  std::vector<std::uint8_t> removed_;
  std::vector<ValueId> redirected_;
  /// Per constant: how many tensors in use share its bytes (equal keys count as one constant).
  std::vector<std::uint32_t> sharers_;
  std::multimap<std::size_t, Node> inserted_;
};

}  // namespace nibble
