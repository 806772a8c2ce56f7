// A checked program: everything behind this header is known to be consistent (see program/). Ids are indices into
// `values`; every id in a node, list, input or output is in range, every shape's byte size fits 64 bits.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "graph/size.hpp"

namespace nibble {

using ValueId = std::uint32_t;

struct Null {};

/// A tensor at its upper-bound shape.
struct TensorValue {
  DType dtype = DType::f32;
  DType staging = DType::f32;  ///< what the host side of the delegate holds
  Shape shape;
  std::int32_t constant = -1;  ///< index into Graph::constants, or -1
  std::int32_t mem_obj = -1;   ///< the exporter's memory plan; Nibble computes its own liveness
  bool narrowed = false;       ///< the constant's bytes are float32, the tensor is float16
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

/// Bytes that live outside the graph. `offset` is absolute in the container file (or in the blob) when `located`;
/// otherwise whoever opened the program finds the bytes by `key`.
struct Constant {
  std::uint64_t length = 0;
  std::string key;  ///< sha256 of the bytes, in hex; empty for inline constants
  std::uint64_t offset = 0;
  bool located = false;
  /// Other constants, one after another, that this one is made of: a pass joined them.
  std::vector<std::uint32_t> parts = {};
};

struct Node {
  std::string op;
  std::vector<ValueId> args;  ///< schema order, the output value last
  std::string origin = {};    ///< what the program calls it, where a pass made it of something else

  /// How errors name it.
  std::string_view name() const { return origin.empty() ? op : origin; }
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Constant> constants;
  std::vector<ValueId> inputs;   ///< tensors and SymInts
  std::vector<ValueId> outputs;  ///< tensors and SymInts

  const TensorValue* tensor(ValueId id) const { return std::get_if<TensorValue>(&values[id]); }
  TensorValue* tensor(ValueId id) { return std::get_if<TensorValue>(&values[id]); }
};

}  // namespace nibble
