#include "gpu/executor.hpp"

#include <algorithm>

#include "gpu/timer.hpp"

namespace nibble::gpu {

std::size_t Executor::GroupHash::operator()(const GroupKey& key) const noexcept {
  std::size_t hash = std::hash<const void*>()(key.layout);
  for (auto id : key.buffers) hash = (hash ^ id) * 0x9e3779b97f4a7c15;
  return hash;
}

Executor::Executor(std::shared_ptr<const ModelResources> model, std::shared_ptr<const Boundary> boundary)
    : model_(std::move(model)),
      boundary_(std::move(boundary)),
      device_(*model_->device()),
      layout_(model_->plan()->layout()),
      stepper_(model_->plan()),
      pipelines_(model_->pipelines()),
      taken_(boundary_->signature().inputs.size()),
      converted_(layout_.inputs.size()),
      state_rows_(layout_.states.size()) {
  given_.reserve(taken_.size());
  step_groups_.reserve(layout_.max_dispatches);
  writes_.reserve(layout_.inputs.size());
  reads_.reserve(layout_.outputs.size());
}

Result<std::unique_ptr<Executor>> Executor::make(std::shared_ptr<const ModelResources> model,
                                                 std::shared_ptr<const Boundary> boundary, ConstantSource& source) {
  std::unique_ptr<Executor> self(new Executor(std::move(model), std::move(boundary)));
  Device& device = self->device_;
  const Layout& layout = self->layout_;
  TRY_ASSIGN(self->buffers_,
             BufferSet::make(device, layout, [](BufferRole role) { return role != BufferRole::constant; }));
  TRY(upload(device, source, layout.uploads, self->buffers_.raw, kStatePace, nullptr));
  auto constants = self->model_->constants();
  for (std::size_t i = 0; i < constants.size(); ++i) {
    if (constants[i] != nullptr) self->buffers_.raw[i] = constants[i];
  }
  const auto params_bytes = std::max<std::uint64_t>(layout.max_dispatches, 1) * kParamsStride;
  TRY_ASSIGN(self->params_, device.make_buffer(params_bytes, WGPUBufferUsage_Uniform | WGPUBufferUsage_CopyDst,
                                               "making the buffer of parameters"));
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
  step_groups_.clear();
  ErrorScope scope(device_, ErrorScope::Catch::everything);
  for (const auto* dispatch : dispatches) step_groups_.push_back(bind_group(*dispatch));
  if (const auto params = stepper_.params(); !params.empty()) {
    wgpu().QueueWriteBuffer(device_.queue(), params_.get(), 0, params.data(), params.size());
  }
  if (auto status = scope.close("binding the buffers of a call"); !status) {
    groups_.clear();  // an invalid bind group must not be found again
    return status;
  }
  prepared_version_ = stepper_.version();
  return {};
}

WGPUBindGroup Executor::bind_group(const Dispatch& dispatch) {
  const BindLayout* layout = pipelines_[dispatch.pipeline]->layout.get();
  GroupKey key{layout, {}};
  std::copy_n(dispatch.bindings.begin(), dispatch.binding_count, key.buffers.begin());
  if (auto found = groups_.find(key); found != groups_.end()) return found->second.get();

  std::array<WGPUBindGroupEntry, kMaxBindings + 1> entries{};
  entries[0].buffer = params_.get();
  entries[0].size = kParamsStride;
  for (std::uint32_t i = 0; i < dispatch.binding_count; ++i) {
    entries[i + 1].binding = i + 1;
    entries[i + 1].buffer = buffers_.raw[dispatch.bindings[i]];
    entries[i + 1].size = WGPU_WHOLE_SIZE;
  }
  WGPUBindGroupDescriptor descriptor{};
  descriptor.layout = layout->group.get();
  descriptor.entryCount = dispatch.binding_count + 1;
  descriptor.entries = entries.data();
  BindGroup group(wgpu().DeviceCreateBindGroup(device_.handle(), &descriptor));
  return groups_.emplace(key, std::move(group)).first->second.get();
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
  WGPUSubmissionIndex submission = 0;
  {
    ErrorScope scope(device_, ErrorScope::Catch::validation);
    CommandEncoder encoder(wgpu().DeviceCreateCommandEncoder(device_.handle(), nullptr));
    if (fault_seen_)
      wgpu().CommandEncoderClearBuffer(encoder.get(), buffers_.raw[layout_.fault_buffer], 0, WGPU_WHOLE_SIZE);
    if (has_work) encode_dispatches(encoder.get(), timer);
    encode_reads(encoder.get());
    CommandBuffer commands(wgpu().CommandEncoderFinish(encoder.get(), nullptr));
    if (auto status = scope.close("encoding a call"); !status) {
      prepared_version_ = 0;
      groups_.clear();
      return status;
    }
    WGPUCommandBuffer raw = commands.get();
    submission = wgpu().QueueSubmitForIndex(device_.queue(), 1, &raw);
    fault_seen_ = false;
    if (read_bytes != 0) readback_.request(read_bytes);
    TRY(scope.settle("submitting a call"));
  }
  if (read_bytes == 0) {
    device_.wait(submission);
    return device_.check();
  }
  TRY_ASSIGN(auto bytes, readback_.wait(device_, submission));
  auto status = read_outputs(outputs, bytes);
  readback_.release();
  TRY(status);
  return device_.check();
}

void Executor::encode_dispatches(WGPUCommandEncoder encoder, Timer* timer) {
  const auto dispatches = stepper_.dispatches();
  ComputePass pass;
  WGPUComputePipeline bound = nullptr;
  for (std::size_t i = 0; i < dispatches.size(); ++i) {
    const Dispatch& dispatch = *dispatches[i];
    if (timer != nullptr || !pass) {
      WGPUComputePassDescriptor descriptor{};
      WGPUPassTimestampWrites writes{};
      if (timer != nullptr) {
        writes = timer->writes(i);
        descriptor.timestampWrites = &writes;
      }
      pass = ComputePass(wgpu().CommandEncoderBeginComputePass(encoder, &descriptor));
      bound = nullptr;
    }
    auto* pipeline = pipelines_[dispatch.pipeline]->handle.get();
    if (pipeline != bound) wgpu().ComputePassEncoderSetPipeline(pass.get(), bound = pipeline);
    const auto params = static_cast<std::uint32_t>(i * kParamsStride);
    wgpu().ComputePassEncoderSetBindGroup(pass.get(), 0, step_groups_[i], 1, &params);
    wgpu().ComputePassEncoderDispatchWorkgroups(pass.get(), dispatch.grid[0], dispatch.grid[1], dispatch.grid[2]);
    if (timer != nullptr || i + 1 == dispatches.size()) wgpu().ComputePassEncoderEnd(pass.get());
  }
  if (timer != nullptr) timer->encode(encoder);
}

void Executor::encode_reads(WGPUCommandEncoder encoder) {
  if (can_fault_) {
    wgpu().CommandEncoderCopyBufferToBuffer(encoder, buffers_.raw[layout_.fault_buffer], 0, readback_.buffer(), 0,
                                            kFaultWords * 4);
  }
  for (const auto& read : reads_) {
    const auto& desc = layout_.outputs[read.output];
    const auto bytes = Size(read.count * size_of(desc.dtype)).align_up(4).unchecked();
    wgpu().CommandEncoderCopyBufferToBuffer(encoder, buffers_.raw[desc.buffer], 0, readback_.buffer(), read.offset,
                                            bytes);
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
