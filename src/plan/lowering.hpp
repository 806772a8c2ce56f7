// What an op's function works with: live shapes, buffers, choices, dispatches. What ops have in common is here: errors
// that name op and argument, the 32-bit guard, shards, faults.
#pragma once

#include <tuple>

#include "plan/arguments.hpp"
#include "plan/chain.hpp"
#include "plan/op.hpp"
#include "plan/sink.hpp"
#include "plan/storage.hpp"

namespace nibble {

/// The ops of a node and its tail.
using NodeOps = std::vector<const Op*>;

/// What is known about a graph on a device before it is lowered. This is all that a lowering sees of a plan.
struct Planned {
  const Graph& graph;
  const DeviceProfile& profile;
  const Storage& storage;
  std::span<const NodeOps> ops;         ///< per node
  std::span<const std::uint8_t> fixed;  ///< per value: its shape, or its number, is the same in every call
};

/// The shapes and integers of one call.
struct LiveValues {
  explicit LiveValues(const Graph& graph);

  std::vector<Shape> shapes;                             ///< per tensor value; initially the largest
  std::vector<std::int64_t> ints;                        ///< per SymInt
  std::vector<std::uint8_t> changed;                     ///< per value: whether it changed since the last call
  std::vector<std::span<const std::int32_t>> host_data;  ///< per input: its elements, if the host has them
};

/// A shard of a table.
struct ShardPlace {
  std::uint32_t index = 0;
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
};

/// Rows that lie in one shard of each of several tables.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::array<ShardPlace, 4> shards{};
};

/// The node's working memory.
class Scratch {
 public:
  static BufferArg read(std::string_view name, Elem elem) {
    return {{name, Access::read, elem, 4}, {BufferRef::Kind::scratch}};
  }
  static BufferArg write(std::string_view name, Elem elem) {
    return {{name, Access::read_write, elem, 4}, {BufferRef::Kind::scratch}};
  }
};

class Lowering {
 public:
  Lowering(const Planned& planned, LiveValues& live, std::uint32_t node, Sink& sink)
      : planned_(planned), live_(live), node_(node), sink_(sink) {}

  const DeviceProfile& profile() const { return planned_.profile; }
  std::uint32_t node() const { return node_; }
  std::string_view name() const { return part().name(); }
  const Op& op() const { return *planned_.ops[node_][part_]; }

  /// Lowers the node: runs its op's function, and copies the result back if it went to a second buffer.
  Status run();

  template <class... Args>
  [[nodiscard]] std::unexpected<Error> fail(fmt::format_string<Args...> text, Args&&... args) const {
    return vfail(text, fmt::make_format_args(args...));
  }
  [[nodiscard]] std::unexpected<Error> vfail(fmt::string_view text, fmt::format_args args) const;
  /// A dimension argument in [-rank, rank), made non-negative.
  Result<std::size_t> dim(std::int64_t value, std::size_t rank, std::string_view arg) const;
  /// The dimension, or those of a list, as a set.
  Result<DimSet> dims(std::int64_t value, std::size_t rank, std::string_view arg) const;
  Result<DimSet> dims(const Ints& list, std::size_t rank, std::string_view arg) const;

  Status set_shape(Out& out, const Shape& shape);
  /// Of those outputs that there are.
  Status set_shapes(const Outs& outs, std::initializer_list<Shape> shapes);
  void set_int(SymIntOut out, std::int64_t value);
  /// The largest shape that a tensor can have.
  const Shape& bound(const Tensor& tensor) const { return planned_.graph.tensor(tensor.id)->shape; }
  /// Whether its shape is the same in every call.
  bool is_fixed(const Tensor& tensor) const { return planned_.fixed[tensor.id] != 0; }
  /// A number that depends on these tensors' shapes. If they are fixed, its range is one value.
  Extent extent(std::uint64_t now, std::uint64_t most, std::initializer_list<const Tensor*> tensors) const;
  /// How many elements a result has.
  Extent count(const Out& out) const;
  bool varies(std::initializer_list<const Tensor*> tensors) const;
  bool is_alias(const Tensor& a, const Tensor& b) const { return planned_.storage.same(a.id, b.id); }
  /// An element of a program input, if the host has it. At load it has none.
  Result<std::optional<std::int64_t>> host_element(const HostInts& tensor, std::int64_t flat) const;

  BufferArg read(std::string_view name, const Tensor& tensor);
  BufferArg read(std::string_view name, const Tensor& tensor, const ShardPlace& shard) const;
  BufferArg write(std::string_view name, const Out& out);
  BufferArg update(std::string_view name, const State& state);
  static BufferArg fault() { return {{"fault", Access::read_write, Elem::atomics, 1}, {BufferRef::Kind::fault}}; }

  /// Working memory of this node. `most`: the most bytes that any call with the same choices needs.
  Result<Scratch> scratch(Size most);

  /// Says that `indices` are looked up in the rows of a table. True if the kernel must check them (and report faults).
  /// False if the host checks them, because they come straight from an input and the table always has as many rows.
  bool check_on_device(const Ids& indices, const Tensor& table);
  /// For indices that only the kernel can check, because the table's rows change from call to call, or because negative
  /// indices are valid. Gives the site's number, for report_fault_at.
  std::uint32_t add_fault_site(const Tensor& indices, std::int64_t rows) {
    return sink_.add_fault_site({indices.arg, indices.id, rows});
  }
  /// After this call, the first `rows` entries along dimension `axis` of the state are in use.
  void use_rows(const State& state, std::size_t axis, std::int64_t rows) { sink_.use_rows(state.id, axis, rows); }

  /// Calls `f(RowRange)` for each range of rows that lies in one shard of every table. Tables that are split by columns
  /// have columns in place of rows.
  template <class F>
  Status for_each_row_range(std::int64_t rows, std::initializer_list<const Sharded*> tables, F&& f) {
    TRY(check_rows(rows, tables));
    // Also runs once for zero rows: the kernel must still report every index as bad.
    std::int64_t row = 0;
    do {
      const RowRange range = row_range(rows, tables, row);
      TRY(f(range));
      row = range.end;
    } while (row < rows);
    return {};
  }
  bool is_sharded(const Sharded& table) const { return entry(table).shards.size() > 1; }
  /// The distance between two rows of a matrix in one of its shards, in elements.
  std::int64_t pitch(const Sharded& table, const ShardPlace& shard) const;

  /// Chooses a variant. Kernels may depend on live shapes and on the device only through this.
  const Variant& choose(const Choice& choice, const Facts& facts) {
    return choice.variants[sink_.choose(choice, facts)];
  }
  /// The number of dispatch() calls may depend only on choices and on what the program fixes. Set `threads = 0` when
  /// there is nothing to do.
  Status dispatch(const Kernel& kernel);
  /// A thread for every four elements: as many as the parameters say.
  template <class P>
  Status dispatch_quads(const Shader& shader, const Bindings& bind, const P& params, const Slots& slots = {}) {
    return dispatch_threads(shader, bind, params, params.quads, slots);
  }

  /// Whether elementwise ops are computed together with this one.
  bool is_joined() const { return !whole().tail.empty(); }
  /// What this op, which is in the tail of another, is a step of; else null.
  Chain* chain() const { return chain_; }
  /// Adds the node's tail to a chain that has the node's own value.
  Status add_tail(Chain& chain);
  /// The output of the last of them.
  Out last_out() const;

  /// Reads argument `index`; the types are those of arguments.hpp.
  Status argument(std::size_t index, Tensor& out) const;
  Status argument(std::size_t index, std::int64_t& out) const;
  Status argument(std::size_t index, LiveInt& out) const;
  Status argument(std::size_t index, Number& out) const;
  Status argument(std::size_t index, Numbers& out) const;
  Status argument(std::size_t index, bool& out) const;
  Status argument(std::size_t index, Ints& out) const;
  Status argument(std::size_t index, LiveInts& out) const;
  Status argument(std::size_t index, SymIntOut& out) const;
  Status argument(std::size_t index, std::string_view& out) const;
  Status argument(std::size_t index, Tensors& out) const;
  Status argument(std::size_t index, Ids& out) const;
  static Status argument(std::size_t, Ignored&) { return {}; }
  template <class T>
  Status argument(std::size_t index, Float<T>& out) const {
    TRY(argument(index, static_cast<T&>(out)));
    return check_float(out);
  }
  template <class T>
  Status argument(std::size_t index, std::optional<T>& out) const {
    if (std::holds_alternative<Null>(value(index))) return {};
    return argument(index, out.emplace());
  }

 private:
  /// The node, and what of it is lowered: itself or an item of its tail.
  const Node& whole() const { return planned_.graph.nodes[node_]; }
  const Node& part() const { return part_ == 0 ? whole() : whole().tail[part_ - 1]; }
  Status dispatch_with_tail(const Kernel& kernel, const BufferArg& result);
  Status emit(const Kernel& kernel);
  Status dispatch_threads(const Shader& shader, const Bindings& bind, const Params& params, std::uint64_t threads,
                          const Slots& slots);
  std::string_view arg(std::size_t index) const { return op().signature.list[index].name; }
  ValueId id(std::size_t index) const { return part().args[index]; }
  const Value& value(std::size_t index) const { return planned_.graph.values[id(index)]; }
  Status read_ints(std::size_t index, bool may_live, Ints& out) const;
  Status check_float(const Tensor& tensor) const;
  Status check_float(const Tensors& tensors) const;
  std::unexpected<Error> wrong_kind(std::size_t index, std::string_view wanted) const;
  const StorageEntry& entry(const Tensor& tensor) const {
    return planned_.storage.entries[planned_.storage.entry_of[tensor.id]];
  }
  void refuse(std::string sentence);
  Status check_rows(std::int64_t rows, std::initializer_list<const Sharded*> tables) const;
  RowRange row_range(std::int64_t rows, std::initializer_list<const Sharded*> tables, std::int64_t begin) const;

  const Planned& planned_;
  LiveValues& live_;
  std::uint32_t node_;
  std::size_t part_ = 0;
  Chain* chain_ = nullptr;
  Sink& sink_;
  std::optional<Error> error_;  ///< of a buffer argument; the next dispatch() returns it
};

/// False if it failed. A function per type instead of code in every op, which keeps the wasm small.
template <class T>
[[gnu::noinline]] bool read_argument(const Lowering& op, std::size_t index, T& out, Status& status) {
  status = op.argument(index, out);
  return status.has_value();
}

/// Reads a node's arguments as the parameters of F, and calls it.
template <auto F>
struct Lower;
template <class... Ts, Status (*F)(Lowering&, Ts...)>
struct Lower<F> {
  static Status call(Lowering& op) {
    std::tuple<std::remove_cvref_t<Ts>...> values;
    Status status;
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return (read_argument(op, I, std::get<I>(values), status) && ...) ? F(op, std::get<I>(values)...)
                                                                        : std::move(status);
    }(std::index_sequence_for<Ts...>{});
  }

  static consteval Signature signature(std::string_view name, std::string_view names);
};

/// Not constexpr, so a consteval function that calls one does not compile.
void more_names_than_parameters();
void fewer_names_than_parameters();

template <class... Ts, Status (*F)(Lowering&, Ts...)>
consteval Signature Lower<F>::signature(std::string_view name, std::string_view names) {
  Signature made{.op = name};
  constexpr std::array<Arg, sizeof...(Ts)> kArgs{
      Arg{{}, role_of<std::remove_cvref_t<Ts>>, is_optional<std::remove_cvref_t<Ts>>}...};
  static_assert(sizeof...(Ts) >= 1 && sizeof...(Ts) <= Signature::kMaxArgs);
  while (!names.empty()) {
    if (made.count == sizeof...(Ts)) more_names_than_parameters();
    const auto comma = std::min(names.find(", "), names.size());
    const auto arrow = std::min(names.find(" -> "), names.size());
    made.list[made.count] = kArgs[made.count];
    made.list[made.count++].name = names.substr(0, std::min(comma, arrow));
    names.remove_prefix(std::min(comma < arrow ? comma + 2 : arrow + 4, names.size()));
  }
  if (made.count != sizeof...(Ts)) fewer_names_than_parameters();
  return made;
}

/// A row of a family's table: the op's name, its arguments' names in the order of F's parameters, as
/// "self, dim -> out", and what docs/ops.md should say about it.
template <auto F>
consteval Op op(std::string_view name, std::string_view names, Note notes = {}) {
  return {.signature = Lower<F>::signature(name, names), .lower = &Lower<F>::call, .expression = {}, .notes = notes};
}

/// The same for an op whose kernels call store_result or store4_result once for each element of their only result, and
/// whose parameters end with `tail`: elementwise ops can follow in the same kernel.
template <auto F>
consteval Op open(std::string_view name, std::string_view names, Note notes = {}) {
  Op made = op<F>(name, names, notes);
  made.signature.joins = Joins::steps;
  return made;
}

/// The same for an elementwise op. F finds the row's expression with Lowering::op().
template <auto F>
consteval Op elementwise(std::string_view name, std::string_view names, Expression expression = {}, Note notes = {}) {
  Op made = op<F>(name, names, notes);
  made.expression = expression;
  made.signature.joins = Joins::as_one;
  return made;
}

}  // namespace nibble
