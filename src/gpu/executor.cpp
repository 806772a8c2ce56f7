#include "gpu/executor.hpp"

#include <algorithm>

#include "gpu/timer.hpp"
#include "graph/guarded.hpp"

namespace nibble::gpu {

Executor::Executor(std::shared_ptr<const ModelResources> model, std::shared_ptr<const Boundary> boundary)
    : model_(std::move(model)),
      boundary_(std::move(boundary)),
      device_(*model_->device()),
      layout_(model_->plan()->layout()),
      stepper_(model_->plan()),
      taken_(boundary_->signature().inputs.size()),
      converted_(layout_.inputs.size()),
      state_rows_(layout_.states.size()) {
  given_.reserve(taken_.size());
  writes_.reserve(layout_.inputs.size());
  reads_.reserve(layout_.outputs.size());
}

Result<std::unique_ptr<Executor>> Executor::make(std::shared_ptr<const ModelResources> model,
                                                 std::shared_ptr<const Boundary> boundary, ConstantSource& source) {
  std::unique_ptr<Executor> self(new Executor(std::move(model), std::move(boundary)));
  Device& device = self->device_;
  const Layout& layout = self->layout_;
  TRY_ASSIGN(self->buffers_, BufferSet::make(device, layout, [](BufferRole role) {
               return role != BufferRole::constant && role != BufferRole::loading;
             }));
  TRY(upload(device, source, layout.uploads, self->buffers_.raw, kStatePace, nullptr));
  auto constants = self->model_->constants();
  for (std::size_t i = 0; i < constants.size(); ++i) {
    if (constants[i] != nullptr) self->buffers_.raw[i] = constants[i];
  }
  TRY_ASSIGN(self->dispatcher_,
             Dispatcher::make(device, self->model_->pipelines(), self->buffers_.raw, layout.max_dispatches));
  TRY(self->readback_.make(device, layout.staging_bytes));
  return self;
}

// Prepares bind groups and parameters, which stay the same as long as the shapes do.
Status Executor::prepare() {
  if (prepared_version_ == stepper_.version()) return {};
  const auto dispatches = stepper_.dispatches();
  const auto& descs = layout_.pipelines;
  prepared_version_ = 0;
  can_fault_ = std::ranges::any_of(dispatches, [&](const Dispatch* d) { return descs[d->pipeline].reports_faults; });
  TRY(dispatcher_->prepare(dispatches, stepper_.params()));
  prepared_version_ = stepper_.version();
  return {};
}

Status Executor::execute(std::span<const HostOutput> outputs) { return run(outputs, nullptr); }

Status Executor::check_ready() const {
  if (ready_) return {};
  return fail(ErrorCode::invalid_argument, "the inputs must be set before every call, and setting them must succeed");
}

Status Executor::run(std::span<const HostOutput> outputs, Timer* timer) {
  TRY(check_ready());
  plan_reads(outputs);
  ready_ = false;
  TRY(device_.check());
  TRY(submit_and_read(outputs, timer));
  for (std::size_t i = 0; i < state_rows_.size(); ++i) state_rows_[i] = stepper_.state_rows(i);
  return {};
}

Status Executor::submit_and_read(std::span<const HostOutput> outputs, Timer* timer) {
  const bool has_work = !stepper_.dispatches().empty();
  if (!has_work && reads_.empty()) return read_outputs(outputs, {});

  TRY(prepare());
  const std::uint64_t read_bytes = !reads_.empty() ? reads_end_ : can_fault_ ? kFaultWords * 4 : 0;
  Submission submission = 0;
  {
    ErrorScope scope(device_, ErrorScope::Catch::validation);
    const CommandEncoder encoder = device_.make_encoder();
    if (fault_seen_)
      device_.call().CommandEncoderClearBuffer(encoder.get(), buffers_.raw[layout_.fault_buffer], 0, WGPU_WHOLE_SIZE);
    if (has_work) dispatcher_->encode(encoder.get(), timer);
    encode_reads(encoder.get());
    const CommandBuffer commands = device_.finish(encoder);
    if (auto status = scope.close("encoding a call"); !status) {
      prepared_version_ = 0;
      dispatcher_->forget();
      return status;
    }
    submission = device_.submit(commands);
    fault_seen_ = false;
    if (read_bytes != 0) readback_.request(device_, read_bytes);
    TRY(scope.settle("submitting a call"));
  }
  if (read_bytes == 0) {
    device_.wait(submission);
    return device_.check();
  }
  TRY_ASSIGN(auto bytes, readback_.wait(device_, submission));
  const auto status = guarded([&] { return read_outputs(outputs, bytes); });
  readback_.release(device_);
  TRY(status);
  return device_.check();
}

void Executor::encode_reads(WGPUCommandEncoder encoder) {
  if (can_fault_) {
    device_.call().CommandEncoderCopyBufferToBuffer(encoder, buffers_.raw[layout_.fault_buffer], 0, readback_.buffer(),
                                                    0, kFaultWords * 4);
  }
  for (const auto& read : reads_) {
    const auto& desc = layout_.outputs[read.output];
    const auto bytes = Size(read.count * size_of(desc.dtype)).align_up(4).unchecked();
    device_.call().CommandEncoderCopyBufferToBuffer(encoder, buffers_.raw[desc.buffer], 0, readback_.buffer(),
                                                    read.offset, bytes);
  }
}

Status Executor::read_outputs(std::span<const HostOutput> outputs, std::span<const std::byte> bytes) {
  if (can_fault_ && !bytes.empty()) {
    std::array<std::uint32_t, kFaultWords> words{};
    std::memcpy(words.data(), bytes.data(), sizeof(words));
    if (words[0] != 0) {
      fault_seen_ = true;
      return std::unexpected(stepper_.describe_fault(words));
    }
  }
  for (const auto& read : reads_) {
    const auto& to = outputs[read.output];
    from_device(layout_.outputs[read.output].dtype, bytes.data() + read.offset, to.dtype, to.data, read.count);
  }
  return {};
}

}  // namespace nibble::gpu
