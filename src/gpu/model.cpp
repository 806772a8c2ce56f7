#include "gpu/model.hpp"

namespace nibble::gpu {

Result<BufferSet> BufferSet::make(Device& device, const Layout& layout, bool (*wanted)(BufferRole)) {
  constexpr WGPUBufferUsage kUsage = WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst | WGPUBufferUsage_CopySrc;
  BufferSet set;
  set.raw.resize(layout.buffers.size());
  for (std::size_t i = 0; i < layout.buffers.size(); ++i) {
    const auto& desc = layout.buffers[i];
    if (!wanted(desc.role)) continue;
    TRY_ASSIGN(auto buffer,
               device.make_buffer(desc.bytes, kUsage, fmt::format("making a buffer of {} bytes", desc.bytes)));
    set.raw[i] = buffer.get();
    set.owned.push_back(std::move(buffer));
  }
  return set;
}

Result<std::shared_ptr<const ModelResources>> ModelResources::make(std::shared_ptr<Device> device,
                                                                   std::shared_ptr<const Plan> plan,
                                                                   ConstantSource& source, const Progress& progress) {
  std::shared_ptr<ModelResources> self(new ModelResources(std::move(device), std::move(plan)));
  const Layout& layout = self->plan_->layout();
  // Compile kernels first, so that one that this device cannot run fails before gigabytes are uploaded.
  for (const auto& desc : layout.pipelines) {
    TRY_ASSIGN(auto pipeline, self->device_->pipeline(desc));
    self->pipelines_.push_back(std::move(pipeline));
  }
  TRY_ASSIGN(self->constants_,
             BufferSet::make(*self->device_, layout, [](BufferRole role) { return role == BufferRole::constant; }));
  TRY(upload(*self->device_, source, layout.uploads, self->constants_.raw, kWeightsPace, progress));
  return self;
}

}  // namespace nibble::gpu
