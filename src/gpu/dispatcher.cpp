#include "gpu/dispatcher.hpp"

#include <algorithm>

#include "gpu/timer.hpp"

namespace nibble::gpu {

std::size_t Dispatcher::GroupHash::operator()(const GroupKey& key) const noexcept {
  std::size_t hash = std::hash<const void*>()(key.layout);
  for (auto id : key.buffers) hash = (hash ^ id) * 0x9e3779b97f4a7c15;
  return hash;
}

Result<Dispatcher> Dispatcher::make(Device& device, std::span<const std::shared_ptr<const Pipeline>> pipelines,
                                    std::span<const WGPUBuffer> buffers, std::size_t most) {
  Dispatcher self(device, pipelines, buffers);
  const auto bytes = std::max<std::uint64_t>(most, 1) * kParamsStride;
  TRY_ASSIGN(self.params_, device.make_buffer(bytes, WGPUBufferUsage_Uniform | WGPUBufferUsage_CopyDst,
                                              "making the buffer of parameters"));
  self.bound_.reserve(most);
  return self;
}

Status Dispatcher::prepare(std::span<const Dispatch* const> dispatches, std::span<const std::byte> params) {
  bound_.clear();
  ErrorScope scope(*device_, ErrorScope::Catch::everything);
  for (const auto* dispatch : dispatches) bound_.push_back({dispatch, bind_group(*dispatch)});
  if (!params.empty()) {
    device_->call().QueueWriteBuffer(device_->queue(), params_.get(), 0, params.data(), params.size());
  }
  auto status = scope.close("binding the buffers of a call");
  if (!status) forget();
  return status;
}

WGPUBindGroup Dispatcher::bind_group(const Dispatch& dispatch) {
  const BindLayout* layout = pipelines_[dispatch.pipeline]->layout.get();
  GroupKey key{layout, {}};
  std::copy_n(dispatch.bindings.begin(), dispatch.binding_count, key.buffers.begin());
  if (auto found = groups_.find(key); found != groups_.end()) return found->second.get();

  std::array<WGPUBindGroupEntry, kMaxBindings + 1> entries{};
  entries[0].buffer = params_.get();
  entries[0].size = kParamsStride;
  for (std::uint32_t i = 0; i < dispatch.binding_count; ++i) {
    entries[i + 1].binding = i + 1;
    entries[i + 1].buffer = buffers_[dispatch.bindings[i]];
    entries[i + 1].size = WGPU_WHOLE_SIZE;
  }
  WGPUBindGroupDescriptor descriptor{};
  descriptor.layout = layout->group.get();
  descriptor.entryCount = dispatch.binding_count + 1;
  descriptor.entries = entries.data();
  BindGroup group(device_->engine(), device_->call().DeviceCreateBindGroup(device_->handle(), &descriptor));
  return groups_.emplace(key, std::move(group)).first->second.get();
}

ComputePass Dispatcher::begin_pass(WGPUCommandEncoder encoder, const Timer* timer, std::size_t timed) const {
  WGPUComputePassDescriptor descriptor{};
  WGPUPassTimestampWrites writes{};
  if (timer != nullptr) {
    writes = timer->writes(timed);
    descriptor.timestampWrites = &writes;
  }
  return {device_->engine(), device_->call().CommandEncoderBeginComputePass(encoder, &descriptor)};
}

void Dispatcher::add(WGPUComputePassEncoder pass, std::size_t i, WGPUComputePipeline& current) const {
  const Functions& call = device_->call();
  const Dispatch& dispatch = *bound_[i].dispatch;
  auto* pipeline = pipelines_[dispatch.pipeline]->handle.get();
  if (pipeline != current) call.ComputePassEncoderSetPipeline(pass, current = pipeline);
  const auto params = static_cast<std::uint32_t>(i * kParamsStride);
  call.ComputePassEncoderSetBindGroup(pass, 0, bound_[i].group, 1, &params);
  call.ComputePassEncoderDispatchWorkgroups(pass, dispatch.grid[0], dispatch.grid[1], dispatch.grid[2]);
}

void Dispatcher::encode(WGPUCommandEncoder encoder, std::size_t begin, std::size_t end, const Timer* timer) {
  const Functions& call = device_->call();
  ComputePass pass;
  WGPUComputePipeline current = nullptr;
  for (std::size_t i = begin; i < end; ++i) {
    if (timer != nullptr || !pass) {
      pass = begin_pass(encoder, timer, i);
      current = nullptr;
    }
    add(pass.get(), i, current);
    if (timer != nullptr || i + 1 == end) call.ComputePassEncoderEnd(pass.get());
  }
  if (timer != nullptr && end == bound_.size()) timer->encode(call, encoder);
}

void Dispatcher::encode_again(WGPUCommandEncoder encoder, std::uint32_t times, const Timer* timer) {
  const ComputePass pass = begin_pass(encoder, timer, 0);
  WGPUComputePipeline current = nullptr;
  for (std::uint32_t time = 0; time < times; ++time) {
    for (std::size_t i = 0; i < bound_.size(); ++i) add(pass.get(), i, current);
  }
  device_->call().ComputePassEncoderEnd(pass.get());
  if (timer != nullptr) timer->encode(device_->call(), encoder);
}

}  // namespace nibble::gpu
