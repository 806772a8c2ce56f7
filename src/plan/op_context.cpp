#include "plan/op_context.hpp"

#include <algorithm>
#include <cmath>

#include "plan/copy.hpp"

namespace nibble {

std::int64_t Ints::operator[](std::size_t i) const {
  if (const auto* ints = std::get_if<IntList>(list_)) return (*ints)[i];
  if (const auto* bools = std::get_if<BoolList>(list_)) return (*bools)[i] ? 1 : 0;
  const ValueId id = std::get<ValueList>(*list_).items[i];
  const auto& item = stepper_->plan().graph().values[id];
  if (const auto* integer = std::get_if<std::int64_t>(&item)) return *integer;
  return live_[id];
}

bool Tensors::has(std::size_t i) const { return op_->plan_.graph().tensor(items_[i]) != nullptr; }

Tensor Tensors::operator[](std::size_t i) const { return op_->tensor_of(items_[i], arg_); }

OpContext::OpContext(Stepper& stepper, std::uint32_t node, Measure* measure)
    : stepper_(stepper), plan_(*stepper.plan_), node_(node), measure_(measure) {}

std::string_view OpContext::name() const { return plan_.graph().nodes[node_].name(); }

Status OpContext::expect_count(std::size_t count) const {
  const auto got = plan_.graph().nodes[node_].args.size();
  if (got != count) return fail("takes {} arguments, but the program gives {}", count, got);
  return {};
}

const Value& OpContext::value(std::size_t index) const {
  return plan_.graph().values[plan_.graph().nodes[node_].args[index]];
}

std::unexpected<Error> OpContext::wrong_kind(std::size_t index, std::string_view arg, std::string_view wanted) const {
  return fail("{} must be {}, but it is {}", arg, wanted, kind_name(value(index)));
}

Status OpContext::read_arg(std::size_t index, std::string_view arg, Tensor& out) const {
  const ValueId id = plan_.graph().nodes[node_].args[index];
  if (plan_.graph().tensor(id) == nullptr) return wrong_kind(index, arg, "a tensor");
  out = tensor_of(id, arg);
  return {};
}

Tensor OpContext::tensor_of(ValueId id, std::string_view arg) const {
  return {id, plan_.graph().tensor(id)->dtype, stepper_.shapes_[id], arg};
}

Status OpContext::read_list(std::size_t index, std::string_view arg, Tensors& out) const {
  const auto* list = std::get_if<ValueList>(&value(index));
  if (list == nullptr) return wrong_kind(index, arg, "a list of tensors");
  for (auto id : list->items) {
    const Value& item = plan_.graph().values[id];
    if (!std::holds_alternative<TensorValue>(item) && !std::holds_alternative<Null>(item)) {
      return fail("{} must hold tensors, but an item is {}", arg, kind_name(item));
    }
  }
  out.op_ = this;
  out.items_ = list->items;
  out.arg_ = arg;
  return {};
}

Status OpContext::read_arg(std::size_t index, std::string_view arg, Tensors& out) const {
  return read_list(index, arg, out);
}

Status OpContext::read_arg(std::size_t index, std::string_view arg, Outs& out) const {
  return read_list(index, arg, out);
}

Status OpContext::read_arg(std::size_t index, std::string_view arg, std::string_view& out) const {
  const auto* text = std::get_if<std::string>(&value(index));
  if (text == nullptr) return wrong_kind(index, arg, "a string");
  out = *text;
  return {};
}

Status OpContext::read_arg(std::size_t index, std::string_view arg, Out& out) const {
  return read_arg(index, arg, static_cast<Tensor&>(out));
}

Status OpContext::read_arg(std::size_t index, std::string_view arg, std::int64_t& out) const {
  if (std::holds_alternative<SymInt>(value(index))) {
    out = stepper_.ints_[plan_.graph().nodes[node_].args[index]];
    return {};
  }
  Number number;
  TRY(read_arg(index, arg, number));
  if (!number.is_integer) return fail("{} must be an integer, but it is {}", arg, number.value);
  out = number.integer;
  return {};
}

Status OpContext::read_arg(std::size_t index, std::string_view arg, Number& out) const {
  const Value& v = value(index);
  if (const auto* integer = std::get_if<std::int64_t>(&v)) {
    out = {static_cast<double>(*integer), true, *integer};
  } else if (const auto* number = std::get_if<double>(&v)) {
    // An integral double within the range where doubles count exactly stands for the integer.
    const bool integral = std::abs(*number) <= 9007199254740992.0 && std::trunc(*number) == *number;
    out = {*number, integral, integral ? static_cast<std::int64_t>(*number) : 0};
  } else if (const auto* flag = std::get_if<bool>(&v)) {
    out = {*flag ? 1.0 : 0.0, true, *flag ? 1 : 0};
  } else if (std::holds_alternative<SymInt>(v)) {
    const auto live = stepper_.ints_[plan_.graph().nodes[node_].args[index]];
    out = {static_cast<double>(live), true, live};
  } else {
    return wrong_kind(index, arg, "a number");
  }
  return {};
}

Status OpContext::read_arg(std::size_t index, std::string_view arg, bool& out) const {
  std::int64_t number = 0;
  TRY(read_arg(index, arg, number));
  out = number != 0;
  return {};
}

Status OpContext::read_arg(std::size_t index, std::string_view arg, Ints& out) const {
  const Value& v = value(index);
  out.stepper_ = &stepper_;
  out.list_ = &v;
  out.live_ = stepper_.ints_;
  if (const auto* ints = std::get_if<IntList>(&v)) {
    out.size_ = ints->size();
  } else if (const auto* bools = std::get_if<BoolList>(&v)) {
    out.size_ = bools->size();
  } else if (const auto* list = std::get_if<ValueList>(&v)) {
    out.size_ = list->items.size();
    for (auto item : list->items) {
      const auto& value = plan_.graph().values[item];
      if (!std::holds_alternative<std::int64_t>(value) && !std::holds_alternative<SymInt>(value)) {
        return fail("{} must hold integers, but an item is {}", arg, kind_name(value));
      }
    }
  } else {
    return wrong_kind(index, arg, "a list of integers");
  }
  return {};
}

Status OpContext::read_arg(std::size_t index, std::string_view arg, SymIntOut& out) const {
  if (!std::holds_alternative<SymInt>(value(index))) return wrong_kind(index, arg, "a SymInt");
  out.id = plan_.graph().nodes[node_].args[index];
  return {};
}

Status OpContext::read_arg(std::size_t, std::string_view, Ignored&) const { return {}; }

Result<std::size_t> OpContext::dim(std::int64_t value, std::size_t rank, std::string_view arg) const {
  // A scalar counts as having one dimension here, as in torch.
  const auto n = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  if (value < -n || value >= n) return fail("{} is {}, but the tensor has {} dimensions", arg, value, rank);
  return static_cast<std::size_t>(value < 0 ? value + n : value);
}

Status OpContext::set_shape(Out& out, const Shape& shape) {
  // Working memory is planned by the single sizes, so none may be larger, even if the elements would fit.
  const auto& bound = plan_.graph().tensor(out.id)->shape;
  const auto fits = [](std::int64_t size, std::int64_t most) { return size >= 0 && size <= most; };
  if (!std::ranges::equal(shape, bound, fits)) {
    return fail("{} would have shape {}, but the program makes room for {}", out.arg, shape, bound);
  }
  out.shape = shape;
  if (!(stepper_.shapes_[out.id] == shape)) {
    stepper_.shapes_[out.id] = shape;
    stepper_.changed_[out.id] = 1;
  }
  return {};
}

void OpContext::set_int(SymIntOut out, std::int64_t value) {
  if (stepper_.ints_[out.id] == value) return;
  stepper_.ints_[out.id] = value;
  stepper_.changed_[out.id] = 1;
}

const StorageEntry& OpContext::entry(const Tensor& tensor) const {
  return plan_.storage_.entries[plan_.storage_.entry_of[tensor.id]];
}

bool OpContext::is_alias(const Tensor& a, const Tensor& b) const { return plan_.storage_.same(a.id, b.id); }

bool OpContext::is_sharded(const Tensor& tensor) const { return entry(tensor).shards.size() > 1; }

Result<std::optional<std::int64_t>> OpContext::host_element(const Tensor& tensor, std::int64_t flat) const {
  const auto input = entry(tensor).input;
  if (input < 0) return fail("{} must come straight from a program input", tensor.arg);
  const auto elements = stepper_.host_data_[static_cast<std::size_t>(input)];
  if (flat < 0 || static_cast<std::uint64_t>(flat) >= elements.size()) return std::optional<std::int64_t>();
  return std::optional<std::int64_t>(elements[static_cast<std::size_t>(flat)]);
}

BufferArg OpContext::read(std::string_view name, const Tensor& tensor) {
  const auto& e = entry(tensor);
  if (e.shards.size() != 1 && !error_) {
    error_ =
        Error{ErrorCode::unsupported, fmt::format("{}: {} takes {} bytes, more than one binding on this device shows",
                                                  this->name(), tensor.arg, e.bytes)};
  }
  if (!Size::of(tensor.shape).fits_u32() && !error_) {
    error_ = Error{ErrorCode::unsupported, fmt::format("{}: {} has {} elements, more than 32 bits can count",
                                                       this->name(), tensor.arg, Size::of(tensor.shape).unchecked())};
  }
  return read(name, tensor, e.shards.front());
}

BufferArg OpContext::read(std::string_view name, const Tensor& tensor, const Shard& shard) const {
  return {{name, Access::read, elem_of(tensor.dtype), 4}, shard.buffer};
}

BufferArg OpContext::write(std::string_view name, const Out& out) {
  auto arg = read(name, out);
  arg.format.access = Access::read_write;
  if (plan_.storage_.needs_twin[node_] != 0) arg.buffer = plan_.storage_.twin.empty() ? 0 : plan_.storage_.twin[node_];
  return arg;
}

BufferArg OpContext::update(std::string_view name, const Tensor& tensor) {
  auto arg = read(name, tensor);
  arg.format.access = Access::read_write;
  return arg;
}

BufferArg OpContext::read_scratch(std::string_view name, Elem elem) const {
  return {{name, Access::read, elem, 4}, plan_.storage_.scratch.empty() ? 0 : plan_.storage_.scratch[node_]};
}

BufferArg OpContext::write_scratch(std::string_view name, Elem elem) const {
  auto arg = read_scratch(name, elem);
  arg.format.access = Access::read_write;
  return arg;
}

BufferArg OpContext::fault() const {
  return {{"fault", Access::read_write, Elem::atomics, 1}, plan_.layout_.fault_buffer};
}

void OpContext::need_scratch(Size bound) {
  if (measure_ == nullptr) return;
  if (bound.valid()) {
    measure_->scratch_bytes = std::max(measure_->scratch_bytes, bound.unchecked());
  } else if (!error_) {
    error_ = Error{ErrorCode::unsupported, fmt::format("{}: needs more working memory than 64 bits can count", name())};
  }
}

void OpContext::need_dispatches(std::uint32_t count) {
  if (measure_ != nullptr) measure_->dispatches = std::max(measure_->dispatches, count);
}

bool OpContext::check_on_device(const Tensor& indices, std::int64_t rows) {
  const auto input = entry(indices).input;
  if (input >= 0) {
    if (measure_ != nullptr) measure_->checks.emplace_back(input, IndexCheck{node_, indices.arg, rows});
    return false;
  }
  add_fault_site(indices, rows);
  return true;
}

std::uint32_t OpContext::add_fault_site(const Tensor& indices, std::int64_t rows) {
  auto& faults = stepper_.nodes_[node_].faults;
  faults.push_back({indices.arg, indices.id, rows});
  return static_cast<std::uint32_t>(faults.size() - 1);
}

std::int64_t OpContext::pitch(const Tensor& tensor, const Shard& shard) const {
  const auto& e = entry(tensor);
  if (e.columns != 0) return StorageEntry::pitch(shard);
  return tensor.rank() == 0 ? 1 : tensor.shape[tensor.rank() - 1];
}

bool OpContext::wants_columns(const Tensor& tensor) const {
  const auto& args = plan_.graph().nodes[node_].args;
  const auto wanted = plan_.ops_[node_]->traits.by_columns;
  for (std::size_t i = 0; i < std::min<std::size_t>(args.size(), 32); ++i) {
    if (args[i] == tensor.id && ((wanted >> i) & 1U) != 0) return true;
  }
  return false;
}

Status OpContext::check_rows(std::int64_t rows, std::initializer_list<const Tensor*> tables) const {
  for (const auto* table : tables) {
    const auto& e = entry(*table);
    const auto& shards = e.shards;
    if (shards.size() > 1 && e.columns == 0 && wants_columns(*table)) {
      return fail("{} takes {} bytes, more than one binding on this device shows, and others read it too", table->arg,
                  e.bytes);
    }
    // Of columns there may be more than are used.
    if (shards.size() > 1 && (shards.back().row_end < rows || (e.columns == 0 && shards.back().row_end != rows))) {
      return fail("{} is stored in {} parts of {} rows in all, but it is used as {} rows", table->arg, shards.size(),
                  shards.back().row_end, rows);
    }
  }
  return {};
}

RowRange OpContext::row_range(std::int64_t rows, std::initializer_list<const Tensor*> tables,
                              std::int64_t begin) const {
  RowRange range{begin, rows, {}};
  std::size_t i = 0;
  for (const auto* table : tables) {
    const auto& shards = entry(*table).shards;
    const auto& shard =
        *std::ranges::find_if(shards, [&](const Shard& s) { return begin < s.row_end || &s == &shards.back(); });
    range.shards[i++] = shard;
    if (shards.size() > 1) range.end = std::min(range.end, shard.row_end);
  }
  return range;
}

Result<PipelineId> OpContext::intern(const Kernel& kernel, std::array<std::uint32_t, 3>& groups) {
  // A CPU adapter hands whole workgroups to its cores: a small dispatch is cut finer, so that all of them get some. The
  // smallest and the largest call of a program take one size each, so no call in between needs a third pipeline.
  const bool is_small = profile().kind == AdapterKind::cpu && !kernel.whole_groups &&
                        kernel.threads <= 4 * std::uint64_t{kernel.workgroup};
  auto grid = grid_for(kernel.threads, is_small ? kernel.workgroup / 4 : kernel.workgroup, profile().limits);
  if (!grid) return std::unexpected(Error{grid.error().code, fmt::format("{}: {}", name(), grid.error().message)});
  groups = grid->groups;
  if (kernel.whole_groups && grid->workgroup != kernel.workgroup) {
    return std::unexpected(
        Error{ErrorCode::unsupported, fmt::format("{}: needs workgroups of {} threads, but this device has at most {}",
                                                  name(), kernel.workgroup, grid->workgroup)});
  }

  PipelineKey key;
  key.shader = &kernel.shader;
  key.workgroup = grid->workgroup;
  for (const auto& b : kernel.bind.all()) key.bindings[key.binding_count++] = b.format;
  std::ranges::copy(kernel.overrides, key.overrides.begin());
  key.override_count = static_cast<std::uint32_t>(kernel.overrides.size());
  std::ranges::copy(kernel.lines, key.lines.begin());
  key.line_count = static_cast<std::uint32_t>(kernel.lines.size());
  return stepper_.pipelines_.intern(key, profile());
}

Status OpContext::dispatch(const Kernel& kernel) {
  if (error_) return std::unexpected(*std::exchange(error_, std::nullopt));
  if (kernel.threads == 0) {
    if (measure_ == nullptr) return {};
    ++measure_->idle;
    Kernel small = kernel;
    small.threads = 1;
    return prepare(small);
  }
  if (measure_ == nullptr &&
      std::ranges::find(kernel.bind.all(), kNoBuffer, &BufferArg::buffer) != kernel.bind.all().end()) {
    return std::unexpected(Error{ErrorCode::internal, fmt::format("{}: its working memory was not planned", name())});
  }
  std::array<std::uint32_t, 3> groups{};
  TRY_ASSIGN(const auto pipeline, intern(kernel, groups));
  auto& d = stepper_.nodes_[node_].dispatches.emplace_back();
  d.node = node_;
  d.grid = groups;
  d.pipeline = pipeline;
  for (const auto& b : kernel.bind.all()) d.bindings[d.binding_count++] = b.buffer;
  d.params_bytes = static_cast<std::uint32_t>(kernel.params.size());
  std::ranges::copy(kernel.params, d.params.begin());
  return {};
}

Status OpContext::prepare(const Kernel& kernel) {
  if (measure_ == nullptr || kernel.threads == 0) return {};
  std::array<std::uint32_t, 3> groups{};
  TRY_ASSIGN([[maybe_unused]] const auto pipeline, intern(kernel, groups));
  return {};
}

Status OpContext::finish() {
  if (error_) return std::unexpected(*std::exchange(error_, std::nullopt));
  if (plan_.storage_.needs_twin[node_] != 0) {
    const ValueId out = plan_.node_outputs_[node_].front();
    const BufferId twin = plan_.storage_.twin.empty() ? 0 : plan_.storage_.twin[node_];
    TRY(copy_words(*this, twin, plan_.storage_.entries[plan_.storage_.entry_of[out]].shards.front().buffer,
                   Size::bytes(stepper_.shapes_[out], plan_.graph().tensor(out)->dtype).unchecked()));
  }
  if (measure_ != nullptr) {
    need_dispatches(static_cast<std::uint32_t>(stepper_.nodes_[node_].dispatches.size()) + measure_->idle);
  }
  return {};
}

}  // namespace nibble
