// The part of the executor that takes inputs from the caller and plans the readback of outputs. The Boundary decides
// what may be passed.
#include <algorithm>
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
  writes_.clear();
  for (std::size_t i = 0; i < layout_.inputs.size(); ++i) {
    if (boundary_->wants_elements(i)) TRY(take_data(i, inputs[boundary_->method_input(i)]));
  }
  phase.next("plan");
  TRY(stepper_.update());
  phase.next("upload inputs");
  return write_inputs();
}

Status Executor::take_data(std::size_t input, const HostTensor& tensor) {
  const auto& desc = layout_.inputs[input];
  const auto count = static_cast<std::uint64_t>(tensor.shape.numel());
  const std::uint64_t bytes = count * size_of(desc.dtype);
  const std::uint64_t padded = Size(bytes).align_up(4).unchecked();
  const Range range = boundary_->range(input);
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
  if (bad) return std::unexpected(boundary_->bad_element(stepper_, input, *bad));
  if (desc.used && padded != 0) writes_.push_back({input, data, padded});
  return {};
}

Status Executor::write_inputs() {
  if (writes_.empty()) return {};
  ErrorScope scope(device_, ErrorScope::Catch::validation);
  for (const auto& write : writes_) {
    auto* buffer = buffers_.raw[layout_.inputs[write.input].buffer];
    device_.call().QueueWriteBuffer(device_.queue(), buffer, 0, write.data, write.bytes);
  }
  return scope.close("handing the inputs to the GPU");
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
