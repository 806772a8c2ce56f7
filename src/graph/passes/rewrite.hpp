// What passes have in common: who produces a value and who uses it, and how nodes are replaced.
#pragma once

#include <map>
#include <optional>

#include "graph/passes/passes.hpp"

namespace nibble {

/// A graph as it was when this was made. Changes are collected and carried out by finish().
class Rewriter {
 public:
  Rewriter(Graph& graph, const PassContext& context);

  Graph& graph() { return graph_; }
  std::size_t size() const { return graph_.nodes.size(); }
  const Node& node(std::size_t n) const { return graph_.nodes[n]; }

  /// The only node that writes the value, or nothing: for inputs, constants and what is written more than once.
  std::optional<std::size_t> producer(ValueId v) const;
  /// The producer, if it is this op and still there.
  std::optional<std::size_t> producer(ValueId v, std::string_view op) const;
  /// How many arguments and outputs of the program read the value.
  std::size_t uses(ValueId v) const { return uses_[v]; }
  bool is_output(ValueId v) const { return is_output_[v] != 0; }
  /// Nobody ever writes the value but its one producer, if it has one: it is the same whenever it is read.
  bool is_steady(ValueId v) const;
  /// The value is a constant that no node changes.
  bool is_constant(ValueId v) const;
  /// The only tensor that is made of its bytes, and read once: it may be joined with others and is needed no more.
  bool is_private_constant(ValueId v) const;
  /// The arguments are the same number, string or list of such, or the very same value.
  bool same(ValueId a, ValueId b) const;
  bool is_number(ValueId v, double number) const;
  bool is_null(ValueId v) const;
  bool is_removed(std::size_t n) const { return removed_[n] != 0; }

  ValueId add(Value value);
  /// A constant of these constants' bytes, one after another.
  ValueId join(std::span<const ValueId> constants, DType dtype, Shape shape);
  /// A node with its arguments by name; those that are not named are Null. Errors call it `origin`, if that is given.
  Node make(std::string_view op, std::initializer_list<std::pair<std::string_view, ValueId>> args,
            std::string origin = {});
  void remove(std::size_t n) { removed_[n] = 1; }
  /// Removes a node that nobody needs, and with it what it reads of others.
  void drop(std::size_t n);
  /// Errors name the new node as they did the old one, unless it says otherwise.
  void replace(std::size_t n, Node node) { graph_.nodes[n] = named_as(n, std::move(node)); }
  /// Puts a node behind node n, of which it is a part.
  void insert_after(std::size_t n, Node node) { inserted_.emplace(n, named_as(n, std::move(node))); }
  /// What readers of the value read by now.
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
  /// How many tensors that are read are made of a constant's bytes, be it by another constant of the same name.
  std::vector<std::uint32_t> sharers_;
  std::multimap<std::size_t, Node> inserted_;
};

}  // namespace nibble
