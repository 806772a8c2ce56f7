// The part of the executor that takes inputs from the caller and plans the readback of outputs. The Boundary decides
// what may be passed.
#include <algorithm>
#include <cstring>
#include <new>

#include "gpu/executor.hpp"

namespace nibble::gpu {
namespace {

GivenInput given_of(const HostTensor& tensor) {
  if (tensor.is_int) {
    GivenInput number{.kind = GivenInput::Kind::number, .word = tensor.word};
    if (tensor.word.empty()) number.integer = tensor.integer;
    return number;
  }
  GivenInput given{.dtype = tensor.dtype, .word = tensor.word, .shape = tensor.shape};
  if (tensor.data == nullptr) {
    given.count = 0;
    return given;
  }
  const Size count = Size::of(tensor.shape);
  if (count.valid() && count.unchecked() == 1 && (tensor.dtype == DType::i64 || tensor.dtype == DType::i32)) {
    std::int64_t only = 0;
    // from_device() widens int32 to int64, and leaves int64 as it is.
    from_device(tensor.dtype, tensor.data, DType::i64, &only, 1);
    given.integer = only;
  }
  return given;
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
  TRY(check_settled());
  stage_ = Stage::idle;
  call_.begin();
  auto status = take_inputs(inputs);
  if (status) {
    stage_ = Stage::ready;
  } else {
    call_.end();
  }
  return status;
}

Status Executor::take_inputs(std::span<const HostTensor> inputs) {
  Phase phase(device_.tracer(), "check inputs");
  given_.clear();
  for (const auto& tensor : inputs) given_.push_back(given_of(tensor));
  TRY(boundary_->take(given_, taken_));
  TRY(boundary_->set(stepper_, taken_));
  TRY(writes_.begin());
  for (std::size_t i = 0; i < layout_.inputs.size(); ++i) {
    if (boundary_->wants_elements(i)) TRY(take_data(i, inputs[boundary_->method_input(i)]));
  }
  phase.next("plan");
  TRY(stepper_.update());
  phase.next("upload inputs");
  return writes_.write();
}

Status Executor::take_data(std::size_t input, const HostTensor& tensor) {
  const auto& desc = layout_.inputs[input];
  const auto count = static_cast<std::uint64_t>(tensor.shape.numel());
  const std::uint64_t bytes = count * size_of(desc.dtype);
  const std::uint64_t padded = Size(bytes).align_up(4).unchecked();
  const Range range = boundary_->range(input);
  const bool as_is = tensor.dtype == desc.dtype && desc.dtype != DType::boolean && padded == bytes && !desc.host_read;
  const bool is_wanted = desc.used && padded != 0;
  std::byte* mapped = nullptr;
  if (is_wanted) {
    TRY_ASSIGN(mapped, writes_.memory(input));
  }

  const void* data = tensor.data;
  std::optional<BadElement> bad;
  if (as_is) {
    if (!desc.checks.empty()) bad = find_outside(tensor.dtype, tensor.data, count, range);
  } else {
    // What is mapped may be slow to read, and goes away before the call.
    std::byte* memory = desc.host_read ? nullptr : mapped;
    if (memory == nullptr) {
      TRY_ASSIGN(memory, converted_[input].take(std::max<std::uint64_t>(padded, 4)));
    }
    bad = to_device(tensor.dtype, tensor.data, desc.dtype, memory, count, range);
    std::fill(memory + bytes, memory + padded, std::byte{0});
    if (desc.host_read) stepper_.set_host_data(input, {reinterpret_cast<const std::int32_t*>(memory), count});
    data = memory;
  }
  if (bad) return std::unexpected(boundary_->bad_element(stepper_, input, *bad));
  if (!is_wanted || data == mapped) return {};
  if (mapped != nullptr) {
    std::memcpy(mapped, data, padded);
  } else {
    writes_.add(input, data, padded);
  }
  return {};
}

void Executor::plan_reads(std::span<const HostOutput> outputs) {
  reads_.clear();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& desc = layout_.outputs[i];
    if (outputs[i].data == nullptr || desc.is_symint) continue;
    const auto count = static_cast<std::uint64_t>(stepper_.output_shape(i).numel());
    if (count != 0) reads_.add_output(i, count);
  }
}

}  // namespace nibble::gpu
