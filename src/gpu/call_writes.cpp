#include "gpu/call_writes.hpp"

#include <algorithm>

namespace nibble::gpu {

void CallWrites::make(Device& device, const Layout& layout, std::span<const WGPUBuffer> buffers) {
  device_ = &device;
  layout_ = &layout;
  buffers_ = buffers;
  mappings_.resize(layout.inputs.size());
  for (std::size_t i = 0; i < layout.inputs.size(); ++i) {
    const auto& input = layout.inputs[i];
    if (!input.used || layout.buffers[input.buffer].mapped != HostUse::write) continue;
    mappings_[i].use(buffers[input.buffer], Mapping::Mode::write, layout.buffers[input.buffer].bytes);
  }
  queued_.reserve(layout.inputs.size());
}

Status CallWrites::begin() {
  queued_.clear();
  if (std::ranges::none_of(mappings_, &Mapping::is_requested)) return {};
  TRY(device_->check());
  // What is mapped may have gone with the device while nobody was told, and wgpu-native aborts where it is looked at.
  // To write nothing is what tells.
  ErrorScope scope(*device_, ErrorScope::Catch::validation);
  const std::uint32_t nothing = 0;
  device_->call().QueueWriteBuffer(device_->queue(), buffers_[layout_->fault_buffer], 0, &nothing, 0);
  return scope.close("looking after the device");
}

Result<std::byte*> CallWrites::memory(std::size_t input) {
  auto& mapping = mappings_[input];
  // After a call that failed, or was only measured, nobody asked for it.
  if (!mapping.is_requested()) return nullptr;
  auto bytes = mapping.take(*device_);
  if (!bytes) {
    // There may be no memory for it: the queue will do, unless the device is gone.
    mapping.release(*device_);
    TRY(device_->check());
    return nullptr;
  }
  ++mapped_;
  return bytes->data();
}

Status CallWrites::write() {
  if (queued_.empty()) return {};
  ErrorScope scope(*device_, ErrorScope::Catch::validation);
  for (const auto& one : queued_) {
    auto* buffer = buffers_[layout_->inputs[one.input].buffer];
    device_->call().QueueWriteBuffer(device_->queue(), buffer, 0, one.data, one.bytes);
  }
  return scope.close("handing the inputs to the GPU");
}

void CallWrites::release() {
  for (auto& mapping : mappings_) mapping.release(*device_);
}

void CallWrites::request() {
  for (std::size_t i = 0; i < mappings_.size(); ++i) {
    if (mappings_[i].buffer() == nullptr) continue;
    mappings_[i].request(*device_, layout_->buffers[layout_->inputs[i].buffer].bytes);
  }
}

}  // namespace nibble::gpu
