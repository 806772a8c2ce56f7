// The executor's side that faces the caller: what comes in and goes out is checked here, and named by its number.
#include <algorithm>
#include <new>

#include "gpu/executor.hpp"

namespace nibble::gpu {
namespace {

/// `[1, 3]`, the place of a flat position.
Shape place_of(const Shape& shape, std::uint64_t position) {
  Shape at = shape;
  for (std::size_t i = shape.rank(); i-- > 0;) {
    const auto size = static_cast<std::uint64_t>(shape[i]);
    at[i] = static_cast<std::int64_t>(position % size);
    position /= size;
  }
  return at;
}

Range range_of(const InputDesc& desc) {
  Range range;
  for (const auto& check : desc.checks) {
    range.lowest = 0;
    range.highest = std::min(range.highest, check.rows - 1);
  }
  return range;
}

std::string_view wanted_dtypes(DType device) {
  switch (device) {
    case DType::i32: return "int32 or int64";
    case DType::f32:
    case DType::f16: return "float32, float64 or float16";
    case DType::boolean: return "bool or uint8";
    default: return to_string(device);
  }
}

}  // namespace

Result<std::byte*> HostMemory::take(std::uint64_t bytes) {
  if (bytes > capacity_) {
    capacity_ = 0;
    memory_.reset(new (std::nothrow) std::byte[bytes]);
    if (memory_ == nullptr) return fail(ErrorCode::out_of_memory, "there is no memory for {} bytes of an input", bytes);
    capacity_ = bytes;
  }
  return memory_.get();
}

Status Executor::set_inputs(std::span<const HostTensor> inputs) {
  ready_ = false;
  writes_.clear();
  TRY(device_.check());
  if (inputs.size() != layout_.inputs.size()) {
    return fail(ErrorCode::invalid_argument, "{} {} given, but the program takes {}", inputs.size(),
                inputs.size() == 1 ? "input is" : "inputs are", layout_.inputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) TRY(take_shape(i, inputs[i]));
  for (std::size_t i = 0; i < inputs.size(); ++i) TRY(take_data(i, inputs[i]));
  TRY(stepper_.update());
  TRY(write_inputs());
  ready_ = true;
  return {};
}

Status Executor::take_shape(std::size_t input, const HostTensor& tensor) {
  const auto& desc = layout_.inputs[input];
  const auto number = input_number(input);
  if (!desc.is_symint) {
    if (tensor.is_int) {
      return fail(ErrorCode::invalid_argument, "input {} is an integer, but the program takes a tensor of shape {}",
                  number, desc.bound);
    }
    if (!converts(desc.dtype, tensor.dtype)) {
      return fail(ErrorCode::invalid_argument, "input {} is {}, but the program takes {}", number, tensor.dtype,
                  wanted_dtypes(desc.dtype));
    }
    const bool same_rank = tensor.shape.rank() == desc.bound.rank();
    bool fits = same_rank;
    for (std::size_t i = 0; fits && i < desc.bound.rank(); ++i) {
      fits = tensor.shape[i] >= 0 && tensor.shape[i] <= desc.bound[i];
    }
    if (!fits) {
      return fail(ErrorCode::invalid_argument, "input {} has shape {}, but the program takes {}{}", number,
                  tensor.shape, same_rank ? "at most " : "", desc.bound);
    }
    if (tensor.data == nullptr && tensor.shape.numel() != 0) {
      return fail(ErrorCode::invalid_argument, "input {} has shape {}, but no data", number, tensor.shape);
    }
    return stepper_.set_shape(input, tensor.shape);
  }
  if (tensor.is_int) return stepper_.set_int(input, tensor.integer);
  // A host may pass an integer as a tensor of one element.
  const Size count = Size::of(tensor.shape);
  const bool is_one = count.valid() && count.unchecked() == 1 && tensor.data != nullptr;
  if (!is_one || (tensor.dtype != DType::i64 && tensor.dtype != DType::i32)) {
    return fail(ErrorCode::invalid_argument, "input {} is a {} tensor of shape {}, but the program takes an integer",
                number, tensor.dtype, tensor.shape);
  }
  std::int64_t value = 0;
  from_device(tensor.dtype, tensor.data, DType::i64, &value, 1);
  return stepper_.set_int(input, value);
}

Status Executor::take_data(std::size_t input, const HostTensor& tensor) {
  const auto& desc = layout_.inputs[input];
  if (desc.is_symint || (!desc.used && !desc.host_read && desc.checks.empty())) return {};
  const auto count = static_cast<std::uint64_t>(tensor.shape.numel());
  const std::uint64_t bytes = count * size_of(desc.dtype);
  const std::uint64_t padded = Size(bytes).align_up(4).unchecked();
  const Range range = range_of(desc);
  const bool as_is = tensor.dtype == desc.dtype && desc.dtype != DType::boolean && padded == bytes && !desc.host_read;

  const void* data = tensor.data;
  std::optional<BadElement> bad;
  if (as_is) {
    if (!desc.checks.empty()) bad = find_outside(tensor.dtype, tensor.data, count, range);
  } else {
    TRY_ASSIGN(std::byte * memory, converted_[input].take(std::max<std::uint64_t>(padded, 4)));
    bad = to_device(tensor.dtype, tensor.data, desc.dtype, memory, count, range);
    std::fill(memory + bytes, memory + padded, std::byte{0});
    if (desc.host_read) stepper_.set_host_data(input, {reinterpret_cast<const std::int32_t*>(memory), count});
    data = memory;
  }
  if (bad) {
    for (const auto& check : desc.checks) {
      if (bad->value < 0 || bad->value >= check.rows) {
        return std::unexpected(stepper_.describe_index(check, input, bad->position, bad->value));
      }
    }
    return fail(ErrorCode::out_of_range, "input {}{} is {}, which does not fit the 32 bits that the GPU has",
                input_number(input), place_of(tensor.shape, bad->position), bad->value);
  }
  if (desc.used && padded != 0) writes_.push_back({input, data, padded});
  return {};
}

Status Executor::write_inputs() {
  if (writes_.empty()) return {};
  ErrorScope scope(device_, ErrorScope::Catch::validation);
  for (const auto& write : writes_) {
    auto* buffer = buffers_.raw[layout_.inputs[write.input].buffer];
    wgpu().QueueWriteBuffer(device_.queue(), buffer, 0, write.data, write.bytes);
  }
  return scope.close("handing the inputs to the GPU");
}

Status Executor::plan_reads(std::span<const HostOutput> outputs) {
  if (outputs.size() != layout_.outputs.size()) {
    return fail(ErrorCode::invalid_argument, "{} {} given, but the program has {}", outputs.size(),
                outputs.size() == 1 ? "output is" : "outputs are", layout_.outputs.size());
  }
  reads_.clear();
  // The faults lie first, so that a small call maps little, however large its outputs may get.
  std::uint64_t offset = kFaultWords * 4;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& desc = layout_.outputs[i];
    const auto& to = outputs[i];
    if (to.data == nullptr) continue;
    const Shape shape = desc.is_symint ? Shape{} : stepper_.output_shape(i);
    if (desc.is_symint ? to.dtype != DType::i64 : !converts(desc.dtype, to.dtype)) {
      return fail(ErrorCode::invalid_argument, "output {} is asked for as {}, but the program gives {}",
                  output_number(i), to.dtype, desc.is_symint ? "int64" : wanted_dtypes(desc.dtype));
    }
    const auto count = static_cast<std::uint64_t>(shape.numel());
    if (to.bytes < count * size_of(to.dtype)) {
      return fail(ErrorCode::invalid_argument, "output {} has shape {} and takes {} bytes as {}, but {} are given",
                  output_number(i), shape, count * size_of(to.dtype), to.dtype, to.bytes);
    }
    if (desc.is_symint || count == 0) continue;
    reads_.push_back({i, offset, count});
    offset += Size(count * size_of(desc.dtype)).align_up(16).unchecked();
  }
  reads_end_ = offset;
  return {};
}

}  // namespace nibble::gpu
