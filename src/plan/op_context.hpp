// What an op's function works with: typed arguments, live shapes, dispatches. Everything that ops have in common is
// here, once: errors that name op and argument, the 32-bit guard, shards, faults, parameter packing.
#pragma once

#include <initializer_list>
#include <optional>
#include <tuple>

#include "plan/grid.hpp"
#include "plan/stepper.hpp"

namespace nibble {

/// A tensor argument, with its live shape.
struct Tensor {
  ValueId id = 0;
  DType dtype = DType::f32;
  Shape shape;
  std::string_view arg;

  std::size_t rank() const { return shape.rank(); }
  std::int64_t numel() const { return shape.numel(); }
};

/// The output tensor. Its shape is what the op sets.
struct Out : Tensor {};

/// A number that may have arrived as an Int or a Double (the exporter stores 1 and 1.0 once).
struct Number {
  double value = 0;
  bool is_integer = false;
  std::int64_t integer = 0;  ///< the value, where it is integral
};

/// A list of integers whose items may be SymInts.
class Ints {
 public:
  std::size_t size() const { return size_; }
  std::int64_t operator[](std::size_t i) const;

 private:
  friend class OpContext;
  const Stepper* stepper_ = nullptr;
  const Value* list_ = nullptr;
  std::size_t size_ = 0;
  std::span<const std::int64_t> live_;  ///< SymInt values
};

class OpContext;

/// A list of tensors, some of which may be absent.
class Tensors {
 public:
  std::size_t size() const { return items_.size(); }
  bool has(std::size_t i) const;
  /// Only where has(i).
  Tensor operator[](std::size_t i) const;

 protected:
  friend class OpContext;
  const OpContext* op_ = nullptr;
  std::span<const ValueId> items_;
  std::string_view arg_;
};

/// The outputs of an op that has several. One that nobody reads may be absent.
class Outs : public Tensors {
 public:
  Out operator[](std::size_t i) const { return {Tensors::operator[](i)}; }
};

/// An argument that does not matter to Nibble (a memory format, a device).
struct Ignored {};

/// The SymInt that an op computes.
struct SymIntOut {
  ValueId id = 0;
};

/// A storage buffer of a dispatch.
struct BufferArg {
  BindingFormat format;
  BufferId buffer = 0;

  BufferArg lanes(std::uint8_t n) const {
    BufferArg b = *this;
    b.format.lanes = n;
    return b;
  }
  BufferArg raw(Elem elem) const {
    BufferArg b = *this;
    b.format.elem = elem;
    return b;
  }
};

/// The buffers of a dispatch, in the order of their bindings.
class Bindings {
 public:
  Bindings(std::initializer_list<BufferArg> args) {
    for (const auto& a : args) add(a);
  }
  Bindings& add(const BufferArg& arg) {
    args_[count_++] = arg;
    return *this;
  }
  std::span<const BufferArg> all() const { return {args_.data(), count_}; }

 private:
  std::array<BufferArg, kMaxBindings> args_{};
  std::size_t count_ = 0;
};

/// One dispatch as an op describes it. All text must be static.
struct Kernel {
  const Shader& shader;
  Bindings bind;
  std::span<const std::byte> params;
  std::uint64_t threads = 0;
  std::uint32_t workgroup = 64;
  bool whole_groups = false;  ///< the threads of a workgroup work together: its size is not to be changed
  std::initializer_list<OverrideValue> overrides = {};
  std::initializer_list<std::string_view> lines = {};
};

/// The bytes of a parameter struct, which has the layout of the WGSL struct `Params`.
template <class T>
std::span<const std::byte> params_of(const T& params) {
  static_assert(sizeof(T) <= kParamsStride && std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span(&params, 1));
}

/// A part of several tables' rows that lies in one shard of each.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::array<Shard, 4> shards{};
};

class OpContext {
 public:
  /// `measured` collects what a node needs, while a plan is made.
  struct Measure {
    std::uint64_t scratch_bytes = 0;
    std::uint32_t dispatches = 0;
    std::uint32_t idle = 0;  ///< dispatches that these shapes leave nothing to do for; others may
    std::vector<std::pair<std::size_t, IndexCheck>> checks;  ///< input, check
  };

  OpContext(Stepper& stepper, std::uint32_t node, Measure* measure);

  const DeviceProfile& profile() const { return plan_.profile(); }
  std::uint32_t node() const { return node_; }
  std::string_view name() const;

  /// Reads all arguments at once: `TRY_BIND((a, b, out), op.args<Tensor, Number, Out>({"self", "other", "out"}));`
  template <class... Ts>
  Result<std::tuple<Ts...>> args(const std::array<std::string_view, sizeof...(Ts)>& names) {
    TRY(expect_count(sizeof...(Ts)));
    std::tuple<Ts...> values;
    Status status;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (void)((status = read_arg(I, names[I], std::get<I>(values)), status.has_value()) && ...);
    }(std::index_sequence_for<Ts...>{});
    TRY(std::move(status));
    return values;
  }

  template <class... Args>
  [[nodiscard]] std::unexpected<Error> fail(fmt::format_string<Args...> text, Args&&... args) const {
    return std::unexpected(Error{ErrorCode::invalid_program,
                                 fmt::format("{}: {}", name(), fmt::format(text, std::forward<Args>(args)...))});
  }
  /// A dimension argument in [-rank, rank), made non-negative.
  Result<std::size_t> dim(std::int64_t value, std::size_t rank, std::string_view arg) const;

  Status set_shape(Out& out, const Shape& shape);
  /// The largest shape that a tensor can have.
  const Shape& bound(const Tensor& tensor) const { return plan_.graph().tensor(tensor.id)->shape; }
  void set_int(SymIntOut out, std::int64_t value);
  bool is_alias(const Tensor& a, const Tensor& b) const;
  /// Elements of an integer tensor that comes straight from a program input, when the host has them.
  Result<std::optional<std::int64_t>> host_element(const Tensor& tensor, std::int64_t flat) const;

  BufferArg read(std::string_view name, const Tensor& tensor);
  BufferArg read(std::string_view name, const Tensor& tensor, const Shard& shard) const;
  BufferArg write(std::string_view name, const Out& out);
  /// An argument that the op changes in place: OpTraits::mutates has its bit.
  BufferArg update(std::string_view name, const Tensor& tensor);
  BufferArg read_scratch(std::string_view name, Elem elem) const;
  BufferArg write_scratch(std::string_view name, Elem elem) const;
  BufferArg fault() const;

  /// Working memory of this node: `bound` is what it needs at most, for any live shape.
  void need_scratch(Size bound);
  /// The node emits at most `count` dispatches for any live shape.
  void need_dispatches(std::uint32_t count);

  /// Rows of `indices` are looked up in a table of `rows` rows. True if the kernel must check them (and report
  /// faults); false if the host does, because they come straight from an input.
  bool check_on_device(const Tensor& indices, std::int64_t rows);
  /// Indices that only the kernel checks, because the table's rows change from call to call, or negative indices are
  /// right: the site's number, for report_fault_at.
  std::uint32_t add_fault_site(const Tensor& indices, std::int64_t rows);

  /// Calls `f(RowRange)` for each run of rows that lies in one shard of every table; of columns, in tables that are
  /// split so.
  template <class F>
  Status for_each_row_range(std::int64_t rows, std::initializer_list<const Tensor*> tables, F&& f) {
    TRY(check_rows(rows, tables));
    // Without any row, too: somebody must find out that no index is right.
    std::int64_t row = 0;
    do {
      const RowRange range = row_range(rows, tables, row);
      TRY(f(range));
      row = range.end;
    } while (row < rows);
    return {};
  }
  bool is_sharded(const Tensor& tensor) const;
  /// Elements from one row of a matrix to the next in a shard of it.
  std::int64_t pitch(const Tensor& tensor, const Shard& shard) const;

  Status dispatch(const Kernel& kernel);
  /// A pipeline that neither the smallest nor the largest call may need, but one in between: known, and so compiled, at
  /// load. Only the parts of the kernel that make the pipeline matter.
  Status prepare(const Kernel& kernel);
  /// Called once after the op's function.
  Status finish();

 private:
  friend class Tensors;
  Status expect_count(std::size_t count) const;
  Tensor tensor_of(ValueId id, std::string_view arg) const;
  Status read_list(std::size_t index, std::string_view arg, Tensors& out) const;
  Result<PipelineId> intern(const Kernel& kernel, std::array<std::uint32_t, 3>& groups);
  const Value& value(std::size_t index) const;
  std::unexpected<Error> wrong_kind(std::size_t index, std::string_view arg, std::string_view wanted) const;
  const StorageEntry& entry(const Tensor& tensor) const;
  bool wants_columns(const Tensor& tensor) const;
  Status check_rows(std::int64_t rows, std::initializer_list<const Tensor*> tables) const;
  RowRange row_range(std::int64_t rows, std::initializer_list<const Tensor*> tables, std::int64_t begin) const;

  Status read_arg(std::size_t index, std::string_view arg, Tensor& out) const;
  Status read_arg(std::size_t index, std::string_view arg, Out& out) const;
  Status read_arg(std::size_t index, std::string_view arg, std::int64_t& out) const;
  Status read_arg(std::size_t index, std::string_view arg, Number& out) const;
  Status read_arg(std::size_t index, std::string_view arg, bool& out) const;
  Status read_arg(std::size_t index, std::string_view arg, Ints& out) const;
  Status read_arg(std::size_t index, std::string_view arg, SymIntOut& out) const;
  Status read_arg(std::size_t index, std::string_view arg, std::string_view& out) const;
  Status read_arg(std::size_t index, std::string_view arg, Tensors& out) const;
  Status read_arg(std::size_t index, std::string_view arg, Outs& out) const;
  template <class T>
  Status read_arg(std::size_t index, std::string_view arg, std::optional<T>& out) const {
    if (std::holds_alternative<Null>(value(index))) return {};
    return read_arg(index, arg, out.emplace());
  }
  Status read_arg(std::size_t index, std::string_view arg, Ignored& out) const;

  Stepper& stepper_;
  const Plan& plan_;
  std::uint32_t node_;
  Measure* measure_;
  std::optional<Error> error_;  ///< of a buffer argument, told by the next dispatch()
};

}  // namespace nibble
