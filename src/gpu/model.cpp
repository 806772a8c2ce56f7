#include "gpu/model.hpp"

#include "gpu/dispatcher.hpp"
#include "gpu/in_flight.hpp"
#include "gpu/process.hpp"
#include "gpu/stop.hpp"
#include "plan/batches.hpp"

namespace nibble::gpu {

namespace {

WGPUBufferUsage map_usage(HostUse use) {
  if (use == HostUse::none) return WGPUBufferUsage_None;
  return use == HostUse::read ? WGPUBufferUsage_MapRead : WGPUBufferUsage_MapWrite;
}

}  // namespace

void BufferSet::GiveBack::operator()(Device* device) const noexcept {
  if (!is_forked() && !device->has_failed()) device->engine().give_back(device->queue());
}

Result<BufferSet> BufferSet::make(Device& device, const Layout& layout, bool (*wanted)(BufferRole)) {
  constexpr WGPUBufferUsage kAll = WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst | WGPUBufferUsage_CopySrc;
  BufferSet set;
  set.raw.resize(layout.buffers.size());
  for (std::size_t i = 0; i < layout.buffers.size(); ++i) {
    const auto& desc = layout.buffers[i];
    if (!wanted(desc.role)) continue;
    const auto usage = kAll | map_usage(desc.mapped);
    TRY_ASSIGN(auto buffer,
               device.make_buffer(desc.bytes, usage, fmt::format("making a buffer of {} bytes", desc.bytes)));
    if (!set.memory) set.memory.reset(&device);
    set.raw[i] = buffer.get();
    set.owned.push_back(std::move(buffer));
  }
  return set;
}

Result<std::shared_ptr<const ModelResources>> ModelResources::make(std::shared_ptr<Device> device,
                                                                   std::shared_ptr<const Plan> plan,
                                                                   ConstantSource& source, const Progress& progress) {
  std::shared_ptr<ModelResources> self(new ModelResources(std::move(device), std::move(plan)));
  // Compile kernels first, so that one that this device cannot run fails before gigabytes are uploaded.
  TRY(self->compile(false));
  TRY(self->fill(source, progress));
  return self;
}

Result<std::shared_ptr<const ModelResources>> ModelResources::make_of_what_compiles(std::shared_ptr<Device> device,
                                                                                    std::shared_ptr<const Plan> plan,
                                                                                    ConstantSource& source) {
  std::shared_ptr<ModelResources> self(new ModelResources(std::move(device), std::move(plan)));
  TRY(self->compile(true));
  TRY(self->fill(source, nullptr));
  return self;
}

Status ModelResources::compile(bool may_fail) {
  for (const auto& desc : plan_->layout().pipelines) {
    TRY(check_stop_of_load());
    const Phase phase(device_->tracer(), "compile", desc.label);
    auto pipeline = device_->pipelines().get(desc);
    if (!pipeline) {
      if (!may_fail || device_->has_failed()) return std::unexpected(pipeline.error());
      failed_.emplace(static_cast<PipelineId>(pipelines_.size()), pipeline.error());
    }
    pipelines_.push_back(pipeline ? std::move(*pipeline) : nullptr);
  }
  return {};
}

Status ModelResources::check(std::span<const Dispatch* const> dispatches) const {
  for (const auto* dispatch : dispatches) {
    if (const auto failed = failed_.find(dispatch->pipeline); failed != failed_.end()) {
      return std::unexpected(failed->second);
    }
  }
  return {};
}

Status ModelResources::fill(ConstantSource& source, const Progress& progress) {
  const Layout& layout = plan_->layout();
  Phase phase(device_->tracer(), "upload");
  TRY_ASSIGN(constants_,
             BufferSet::make(*device_, layout, [](BufferRole role) { return role == BufferRole::constant; }));
  TRY_ASSIGN(const auto loading,
             BufferSet::make(*device_, layout, [](BufferRole role) { return role == BufferRole::loading; }));
  auto buffers = constants_.raw;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (loading.raw[i] != nullptr) buffers[i] = loading.raw[i];
  }
  TRY(upload(*device_, source, layout.uploads, buffers, kWeightsPace, progress));
  phase.next("compute constants");
  TRY_ASSIGN(const auto dispatches, Stepper::preparation(plan_));
  if (!dispatches.empty()) TRY(prepare(dispatches, buffers));
  return {};
}

Status ModelResources::prepare(std::span<const Dispatch> dispatches, std::span<const WGPUBuffer> buffers) {
  TRY_ASSIGN(auto dispatcher, Dispatcher::make(*device_, pipelines_, buffers, dispatches.size()));
  std::vector<const Dispatch*> order;
  std::vector<std::byte> params;
  for (const auto& dispatch : dispatches) {
    order.push_back(&dispatch);
    params.insert(params.end(), dispatch.params.begin(), dispatch.params.end());
  }
  TRY(check(order));
  TRY(dispatcher.prepare(order, params));
  std::vector<std::uint32_t> ends;
  cut_batches(order, plan_->layout().batch_work, ends);
  InFlight flight;
  std::size_t begin = 0;
  for (const auto end : ends) {
    TRY(flight.make_room(*device_));
    TRY(check_stop_of_load());
    ErrorScope scope(*device_, ErrorScope::Catch::validation);
    const CommandEncoder encoder = device_->make_encoder();
    dispatcher.encode(encoder.get(), begin, end, nullptr);
    const CommandBuffer commands = device_->finish(encoder);
    TRY(scope.close("encoding what is computed at load"));
    flight.add(device_->submit(commands));
    TRY(scope.settle("submitting what is computed at load"));
    begin = end;
  }
  return flight.drain(*device_);
}

}  // namespace nibble::gpu
