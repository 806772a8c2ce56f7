// A checked program (program/ does the checks). Ids are indices into `values`. Every id in a node, list, input or
// output is in range, and every shape's byte size fits 64 bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/signature.hpp"
#include "graph/size.hpp"
#include "graph/status.hpp"

namespace nibble {

using ValueId = std::uint32_t;

struct Null {};

/// A tensor at its upper-bound shape.
struct TensorValue {
  DType dtype = DType::f32;
  DType staging = DType::f32;  ///< what the host side of the delegate holds
  Shape shape;
  std::int32_t constant = -1;  ///< index into Graph::constants, or -1
  std::int32_t mem_obj = -1;   ///< the exporter's memory plan, which Nibble does not use
  bool narrowed = false;       ///< the constant's bytes are float32, the tensor is float16
  bool fixed = false;          ///< for inputs: the shape is the same in every call
};

/// An integer known only at run time.
struct SymInt {};

using IntList = std::vector<std::int64_t>;
using DoubleList = std::vector<double>;
using BoolList = std::vector<bool>;
struct ValueList {
  std::vector<ValueId> items;
};

using Value = std::variant<Null, std::int64_t, double, bool, TensorValue, IntList, DoubleList, BoolList, ValueList,
                           std::string, SymInt>;

std::string_view kind_name(const Value& value);

/// The integer that a value stands for. The exporter stores equal numbers once, so it may come as an Int, as a Double
/// (whole, and up to 2^53, where doubles are still exact) or as a Bool.
std::optional<std::int64_t> whole_number(const Value& value);

/// Bytes that live outside the graph. `offset` is absolute in the container file (or in the blob) when `located`;
/// otherwise the code that opened the program finds the bytes by `key`.
struct Constant {
  std::uint64_t length = 0;
  std::string key;  ///< sha256 of the bytes, in hex; empty for inline constants
  std::uint64_t offset = 0;
  bool located = false;
  /// If a pass joined constants into this one: those constants, in order.
  std::vector<std::uint32_t> parts = {};
};

struct Node {
  std::string op;
  std::vector<ValueId> args;             ///< in the order of the signature; only the reader knows their places
  std::string origin = {};               ///< the program's name for it, if a pass made this node
  const Signature* signature = nullptr;  ///< set by bind_signatures(); has as many arguments as `args`
  /// Elementwise nodes that the same kernel computes, in order. What they take from the node or from each other is
  /// stored nowhere; the output of the last is the node's.
  std::vector<Node> tail = {};

  /// The name that errors show.
  std::string_view name() const { return origin.empty() ? op : origin; }
  /// An argument by the name that its signature gives it. Only for names that it has: builds with assertions check.
  ValueId operator[](std::string_view arg) const;
  void set(std::string_view arg, ValueId v);
  /// What the node makes: a tensor, a SymInt, or a list of them. Schemas have it last.
  ValueId out() const { return tail.empty() ? made() : tail.back().out(); }
  /// What it makes by itself, before its tail.
  ValueId made() const { return args.back(); }
  /// All other arguments, but for those of the tail.
  std::span<const ValueId> inputs() const { return std::span(args).first(args.size() - 1); }
  /// Whether the value passes from the node to its tail, or within it.
  bool keeps(ValueId v) const {
    return !tail.empty() && v != out() && (v == made() || std::ranges::find(tail, v, &Node::out) != tail.end());
  }
  /// The value whose storage the output may share, if the op gives a view.
  std::optional<ValueId> viewed() const;
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Constant> constants;
  std::vector<ValueId> inputs;    ///< tensors and SymInts
  std::vector<ValueId> outputs;   ///< tensors and SymInts
  std::size_t added_outputs = 0;  ///< how many of the last ones an option added to the program's own
  std::size_t candidates_of = 0;  ///< the output whose largest elements these are

  const TensorValue* tensor(ValueId id) const { return std::get_if<TensorValue>(&values[id]); }
  TensorValue* tensor(ValueId id) { return std::get_if<TensorValue>(&values[id]); }
};

using FindSignature = std::function<const Signature*(std::string_view op)>;

/// Gives every node its signature. One error lists all unknown ops. A wrong number of arguments is an error too.
Status bind_signatures(Graph& graph, const FindSignature& find);

/// Calls `f(value, argument)` for each argument of a node and its tail, and for each item of their lists, but for
/// values that the node keeps. A node that is not bound yet may have another number of arguments than its signature.
template <class F>
void for_each_operand(const Graph& graph, const Node& node, const Signature& signature, F&& f) {
  for (std::size_t i = 0; i < std::min(node.args.size(), signature.count); ++i) {
    const Arg& arg = signature.list[i];
    if (node.keeps(node.args[i])) continue;
    f(node.args[i], arg);
    if (const auto* list = std::get_if<ValueList>(&graph.values[node.args[i]])) {
      for (auto item : list->items) f(item, arg);
    }
  }
  for (const auto& next : node.tail) {
    for (std::size_t i = 0; i < next.args.size(); ++i) {
      if (!node.keeps(next.args[i])) f(next.args[i], next.signature->list[i]);
    }
  }
}

template <class F>
void for_each_operand(const Graph& graph, const Node& node, F&& f) {
  for_each_operand(graph, node, *node.signature, std::forward<F>(f));
}

}  // namespace nibble
