// The parameter types of an op's function. The type says what the argument is for.
#pragma once

#include <optional>
#include <string_view>
#include <type_traits>

#include "graph/graph.hpp"
#include "plan/inline_vector.hpp"

namespace nibble {

/// A tensor, with its live shape.
struct Tensor {
  ValueId id = 0;
  DType dtype = DType::f32;
  Shape shape;
  std::string_view arg;

  std::size_t rank() const { return shape.rank(); }
  std::int64_t numel() const { return shape.numel(); }
};

/// A constant that may be too large for one buffer. It is then split into shards; use Lowering::for_each_row_range().
struct Sharded : Tensor {
  bool by_columns = false;
};
/// Shards are ranges of rows (its first dimension).
struct Table : Sharded {};
/// Shards are ranges of columns (its last dimension).
struct Columns : Sharded {
  Columns() { by_columns = true; }
};

/// A tensor that the op changes in place.
struct State : Tensor {};
/// Indices into another tensor. They must be int32.
struct Ids : Tensor {};
/// A tensor whose elements the host reads before every call.
struct HostInts : Tensor {};

/// An output tensor. The op sets its shape with Lowering::set_shape().
struct Out : Tensor {};
/// An output that may share the storage of the op's state, or else of its first tensor, if both have the same bytes.
struct View : Out {};

/// A number. The program may store it as an Int, a Double (the exporter stores equal numbers once) or a SymInt.
struct Number {
  double value = 0;
  bool is_integer = false;
  std::int64_t integer = 0;  ///< the value, if it is integral
  bool is_live = false;      ///< a SymInt: it may differ in the next call, so kernels may not depend on it

  float to_float() const { return static_cast<float>(value); }
};

/// An integer that may be a SymInt, and so may differ in the next call. A plain std::int64_t is fixed by the program.
struct LiveInt {
  LiveInt() = default;
  LiveInt(std::int64_t integer) : value(integer) {}  // NOLINT(google-explicit-constructor): it is an integer
  operator std::int64_t() const { return value; }    // NOLINT(google-explicit-constructor)

  std::int64_t value = 0;
};

/// A list of integers that the program fixes.
class Ints {
 public:
  Ints() = default;
  Ints(const Graph& graph, const Value& list, std::size_t size, std::span<const std::int64_t> live)
      : graph_(&graph), list_(&list), size_(size), live_(live) {}

  std::size_t size() const { return size_; }
  std::int64_t operator[](std::size_t i) const;
  /// Whether the next call may have another integer there.
  bool is_live(std::size_t i) const;

 private:
  const Graph* graph_ = nullptr;
  const Value* list_ = nullptr;
  std::size_t size_ = 0;
  std::span<const std::int64_t> live_;  ///< SymInt values
};

/// A list of integers whose items may be SymInts.
class LiveInts : public Ints {
 public:
  using Ints::Ints;
};

/// A list of a few numbers that the program fixes.
struct Numbers : InlineVector<double, 8> {};

/// A list of tensors, some of which may be absent.
class Tensors {
 public:
  Tensors() = default;
  Tensors(const Graph& graph, std::span<const ValueId> items, std::span<const Shape> live, std::string_view arg)
      : graph_(&graph), items_(items), live_(live), arg_(arg) {}

  std::size_t size() const { return items_.size(); }
  bool has(std::size_t i) const { return graph_->tensor(items_[i]) != nullptr; }
  /// Only where has(i).
  Tensor operator[](std::size_t i) const {
    return {items_[i], graph_->tensor(items_[i])->dtype, live_[items_[i]], arg_};
  }

 private:
  const Graph* graph_ = nullptr;
  std::span<const ValueId> items_;
  std::span<const Shape> live_;
  std::string_view arg_;
};

/// The outputs of an op that has several. Unused ones may be absent.
class Outs : public Tensors {
 public:
  using Tensors::Tensors;
  Out operator[](std::size_t i) const { return {Tensors::operator[](i)}; }
};

/// Some of a tensor's dimensions.
using DimSet = std::array<bool, Shape::kMaxRank>;

/// Any of the above that holds tensors. All of them must be float32 or float16.
template <class T>
struct Float : T {};

constexpr bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f16; }

/// An argument that does not matter to Nibble (a memory format, a device).
struct Ignored {};

/// A SymInt that the op computes.
struct SymIntOut {
  ValueId id = 0;
};

template <class T>
inline constexpr Role role_of = Role::ignored;
template <>
inline constexpr Role role_of<Tensor> = Role::tensor;
template <>
inline constexpr Role role_of<Table> = Role::table;
template <>
inline constexpr Role role_of<Columns> = Role::columns;
template <>
inline constexpr Role role_of<State> = Role::state;
template <>
inline constexpr Role role_of<Ids> = Role::ids;
template <>
inline constexpr Role role_of<HostInts> = Role::host;
template <>
inline constexpr Role role_of<Tensors> = Role::tensors;
template <>
inline constexpr Role role_of<Number> = Role::number;
template <>
inline constexpr Role role_of<Numbers> = Role::numbers;
template <>
inline constexpr Role role_of<std::int64_t> = Role::integer;
template <>
inline constexpr Role role_of<LiveInt> = Role::live_integer;
template <>
inline constexpr Role role_of<LiveInts> = Role::live_ints;
template <>
inline constexpr Role role_of<bool> = Role::boolean;
template <>
inline constexpr Role role_of<std::string_view> = Role::text;
template <>
inline constexpr Role role_of<Ints> = Role::ints;
template <>
inline constexpr Role role_of<Out> = Role::out;
template <>
inline constexpr Role role_of<View> = Role::view;
template <>
inline constexpr Role role_of<Outs> = Role::outs;
template <>
inline constexpr Role role_of<SymIntOut> = Role::integer_out;
template <class T>
inline constexpr Role role_of<Float<T>> = role_of<T>;
template <class T>
inline constexpr Role role_of<std::optional<T>> = role_of<T>;

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

}  // namespace nibble

template <>
struct fmt::formatter<nibble::LiveInt> : nibble::PlainField {
  auto format(nibble::LiveInt i, fmt::format_context& ctx) const { return fmt::format_to(ctx.out(), "{}", i.value); }
};
