#include "plan/lowering.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/bounds.hpp"
#include "plan/copy.hpp"

namespace nibble {

LiveValues::LiveValues(const Graph& graph)
    : shapes(graph.values.size()),
      ints(graph.values.size()),
      changed(graph.values.size()),
      host_data(graph.inputs.size()) {
  for (ValueId v = 0; v < shapes.size(); ++v) {
    if (const auto* tensor = graph.tensor(v)) shapes[v] = tensor->shape;
  }
}

Status Lowering::run() {
  TRY(op().lower(*this));
  if (error_) return std::unexpected(*std::exchange(error_, std::nullopt));
  const auto& storage = planned_.storage;
  if (storage.needs_twin[node_] == 0) return {};
  const auto& values = planned_.graph.values;
  auto out = whole().out();
  if (const auto* list = std::get_if<ValueList>(&values[out])) {
    out = *std::ranges::find_if(list->items, [&](ValueId v) { return std::holds_alternative<TensorValue>(values[v]); });
  }
  return copy_words(*this, {BufferRef::Kind::twin}, {BufferRef::Kind::entry, storage.entry_of[out]},
                    Size::bytes(live_.shapes[out], planned_.graph.tensor(out)->dtype).unchecked());
}

std::unexpected<Error> Lowering::vfail(fmt::string_view text, fmt::format_args args) const {
  return nibble::fail(ErrorCode::invalid_program, "{}: {}", name(), fmt::vformat(text, args));
}

Result<std::size_t> Lowering::dim(std::int64_t value, std::size_t rank, std::string_view arg) const {
  // A scalar counts as having one dimension here, as in torch.
  const auto n = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  if (value < -n || value >= n) return fail("{} is {}, but the tensor has {} dimensions", arg, value, rank);
  return static_cast<std::size_t>(value < 0 ? value + n : value);
}

Result<DimSet> Lowering::dims(std::int64_t value, std::size_t rank, std::string_view arg) const {
  DimSet set{};
  TRY_ASSIGN(const auto d, dim(value, rank, arg));
  set[d] = true;
  return set;
}

Result<DimSet> Lowering::dims(const Ints& list, std::size_t rank, std::string_view arg) const {
  DimSet set{};
  for (std::size_t i = 0; i < list.size(); ++i) {
    TRY_ASSIGN(const auto d, dim(list[i], rank, arg));
    set[d] = true;
  }
  return set;
}

Status Lowering::set_shape(Out& out, const Shape& shape) {
  // Working memory is planned from single dimensions, so none may be larger than its bound, even if the elements would
  // fit.
  const auto& most = bound(out);
  if (shape.overflowed()) return fail("{} would have more than {} dimensions", out.arg, Shape::kMaxRank);
  const auto fits = [](std::int64_t size, std::int64_t largest) { return size >= 0 && size <= largest; };
  if (!std::ranges::equal(shape, most, fits)) {
    return fail("{} would have shape {}, but the program makes room for {}", out.arg, shape, most);
  }
  // The next call begins with what this one leaves.
  if (planned_.graph.tensor(out.id)->constant >= 0 && !(shape == most)) {
    return fail("{} would have shape {}, but it is a state, which keeps the shape {}", out.arg, shape, most);
  }
  out.shape = shape;
  if (!(live_.shapes[out.id] == shape)) {
    live_.shapes[out.id] = shape;
    live_.changed[out.id] = 1;
  }
  return {};
}

Status Lowering::set_shapes(const Outs& outs, std::initializer_list<Shape> shapes) {
  for (std::size_t i = 0; i < std::min(outs.size(), shapes.size()); ++i) {
    if (!outs.has(i)) continue;
    Out out = outs[i];
    TRY(set_shape(out, shapes.begin()[i]));
  }
  return {};
}

void Lowering::set_int(SymIntOut out, std::int64_t value) {
  if (live_.ints[out.id] == value) return;
  live_.ints[out.id] = value;
  live_.changed[out.id] = 1;
}

bool Lowering::varies(std::initializer_list<const Tensor*> tensors) const {
  return !std::ranges::all_of(tensors, [&](const Tensor* t) { return is_fixed(*t); });
}

Extent Lowering::extent(std::uint64_t now, std::uint64_t most, std::initializer_list<const Tensor*> tensors) const {
  if (!varies(tensors)) return {now};
  return {now, 0, std::max(now, most)};
}

Extent Lowering::count(const Out& out) const {
  const auto most = Size::of(bound(out));
  return extent(static_cast<std::uint64_t>(out.numel()), most.valid() ? most.unchecked() : When::kAny, {&out});
}

Result<std::optional<std::int64_t>> Lowering::host_element(const HostInts& tensor, std::int64_t flat) const {
  const auto input = entry(tensor).input;
  if (input < 0) return fail("{} must come straight from a program input", tensor.arg);
  const auto elements = live_.host_data[static_cast<std::size_t>(input)];
  if (flat < 0 || static_cast<std::uint64_t>(flat) >= elements.size()) return std::optional<std::int64_t>();
  return std::optional<std::int64_t>(elements[static_cast<std::size_t>(flat)]);
}

void Lowering::refuse(std::string sentence) {
  if (!error_) error_ = Error{ErrorCode::unsupported, fmt::format("{}: {}", name(), sentence)};
}

BufferArg Lowering::read(std::string_view name, const Tensor& tensor) {
  const auto& e = entry(tensor);
  if (e.shards.size() != 1) [[unlikely]] {
    refuse(fmt::format("{} takes {} bytes, more than one binding on this device shows", tensor.arg, e.bytes));
  }
  // An element has a byte at least, and a live shape is never larger than what is stored.
  if (e.bytes > std::numeric_limits<std::uint32_t>::max()) [[unlikely]] {
    const auto count = Size::of(tensor.shape);
    if (!count.fits_u32()) {
      refuse(fmt::format("{} has {} elements, more than 32 bits can count", tensor.arg, count.unchecked()));
    }
  }
  return read(name, tensor, ShardPlace{});
}

BufferArg Lowering::read(std::string_view name, const Tensor& tensor, const ShardPlace& shard) const {
  return {{name, Access::read, elem_of(tensor.dtype), 4},
          {BufferRef::Kind::entry, planned_.storage.entry_of[tensor.id], shard.index}};
}

BufferArg Lowering::write(std::string_view name, const Out& out) {
  auto arg = read(name, whole().keeps(out.id) ? last_out() : out);
  arg.format.access = Access::read_write;
  if (planned_.storage.needs_twin[node_] != 0) arg.buffer = {BufferRef::Kind::twin};
  return arg;
}

BufferArg Lowering::update(std::string_view name, const State& state) {
  auto arg = read(name, state);
  arg.format.access = Access::read_write;
  return arg;
}

Result<Scratch> Lowering::scratch(Size most) {
  if (!most.valid()) {
    return nibble::fail(ErrorCode::unsupported, "{}: needs more working memory than 64 bits can count", name());
  }
  TRY(sink_.reserve(most.unchecked()));
  return Scratch{};
}

bool Lowering::check_on_device(const Ids& indices, const Tensor& table) {
  const auto input = entry(indices).input;
  const std::int64_t rows = table.shape[0];
  if (input >= 0 && !varies({&table})) {
    sink_.check_input(static_cast<std::size_t>(input), {node_, indices.arg, rows});
    return false;
  }
  add_fault_site(indices, rows);
  return true;
}

std::int64_t Lowering::pitch(const Sharded& table, const ShardPlace& shard) const {
  const auto& e = entry(table);
  if (e.columns != 0) return StorageEntry::pitch(e.shards[shard.index]);
  return table.rank() == 0 ? 1 : table.shape[table.rank() - 1];
}

Status Lowering::check_rows(std::int64_t rows, std::initializer_list<const Sharded*> tables) const {
  for (const auto* table : tables) {
    const auto& e = entry(*table);
    const auto& shards = e.shards;
    if (shards.size() > 1 && e.columns == 0 && table->by_columns) {
      return fail("{} takes {} bytes, more than one binding on this device shows, and others read it too", table->arg,
                  e.bytes);
    }
    // A table that is split by columns may have more of them than are used.
    if (shards.size() > 1 && (shards.back().row_end < rows || (e.columns == 0 && shards.back().row_end != rows))) {
      return fail("{} is stored in {} parts of {} rows in all, but it is used as {} rows", table->arg, shards.size(),
                  shards.back().row_end, rows);
    }
  }
  return {};
}

RowRange Lowering::row_range(std::int64_t rows, std::initializer_list<const Sharded*> tables,
                             std::int64_t begin) const {
  RowRange range{begin, rows, {}};
  std::size_t i = 0;
  for (const auto* table : tables) {
    const auto& shards = entry(*table).shards;
    // By halves, since there may be very many; behind the last row, the last.
    const auto found = std::ranges::upper_bound(shards.begin(), shards.end() - 1, begin, {}, &Shard::row_end);
    range.shards[i++] = {static_cast<std::uint32_t>(found - shards.begin()), found->row_begin, found->row_end};
    if (shards.size() > 1) range.end = std::min(range.end, found->row_end);
  }
  return range;
}

Status Lowering::dispatch(const Kernel& kernel) {
  if (error_) return std::unexpected(*std::exchange(error_, std::nullopt));
  if (!is_joined() || !kernel.tail.text.empty()) return emit(kernel);
  const auto* result = std::ranges::find_if(kernel.bind, [](const BufferArg& b) {
    return b.format.name == "result" && b.buffer.kind != BufferRef::Kind::scratch;
  });
  return result == kernel.bind.end() ? emit(kernel) : dispatch_with_tail(kernel, *result);
}

Status Lowering::emit(const Kernel& kernel) {
  if (!profile().unchecked_kernels || !is_proven(kernel)) [[likely]]
    return sink_.dispatch(kernel);
  Facts facts{.rows = {kernel.threads, 0, When::kAny}};
  const auto& chosen = choose(kBounds, facts.trait(kFits, kernel.fits, true));
  Kernel own = kernel;
  own.unchecked = &chosen == kBounds.variants.data();
  return sink_.dispatch(own);
}

Status Lowering::dispatch_threads(const Shader& shader, const Bindings& bind, const Params& params,
                                  std::uint64_t threads, const Slots& slots) {
  return dispatch({.shader = shader, .bind = bind, .params = params, .threads = threads, .slots = slots});
}

Out Lowering::last_out() const {
  const auto id = whole().out();
  return {{id, planned_.graph.tensor(id)->dtype, live_.shapes[id], "out"}};
}

Status Lowering::add_tail(Chain& chain) {
  for (std::size_t i = 1; i <= whole().tail.size(); ++i) {
    Lowering next(planned_, live_, node_, sink_);
    next.part_ = i;
    next.chain_ = &chain;
    TRY(next.op().lower(next));
  }
  if (chain.overflowed()) return nibble::fail(ErrorCode::internal, "{}: a chain has too many operands", name());
  return {};
}

Status Lowering::dispatch_with_tail(const Kernel& kernel, const BufferArg& result) {
  const auto own = whole().made();
  Tensor first{own, planned_.graph.tensor(own)->dtype, live_.shapes[own], "out"};
  Chain chain(first);
  TRY(add_tail(chain));
  Kernel joined = kernel;
  std::string takes;
  for (std::size_t i = 0; i < chain.operands().size(); ++i) {
    const Tensor& t = chain.operands()[i];
    const bool is_one = bound(t).numel() == 1;
    if (!is_one && !(t.shape == first.shape)) {
      return nibble::fail(ErrorCode::internal, "{}: what follows reads shape {}, but makes {}", name(), t.shape,
                          first.shape);
    }
    joined.bind.push_back(read(Chain::name_of(i), t));
    Chain::write_take(takes, i, Chain::plain_take(is_one, result.format.lanes));
  }
  if (error_) return std::unexpected(*std::exchange(error_, std::nullopt));
  const auto text = chain.text(takes, result.format.lanes);
  if (!joined.params.set_tail(chain.numbers())) {
    return nibble::fail(ErrorCode::internal, "{}: a chain has {} lists of numbers", name(), chain.numbers().size());
  }
  joined.tail = {text, chain.functions()};
  return emit(joined);
}

}  // namespace nibble
