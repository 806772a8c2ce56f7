#include "gpu/executor.hpp"
#include "gpu/timer.hpp"

namespace nibble::gpu {

Status Timer::make(Device& device, std::size_t dispatches) {
  queries = static_cast<std::uint32_t>(dispatches * 2);
  const std::uint64_t bytes = std::uint64_t{queries} * 8;
  TRY_ASSIGN(resolved, device.make_buffer(bytes, WGPUBufferUsage_QueryResolve | WGPUBufferUsage_CopySrc,
                                          "making a buffer of timestamps"));
  TRY(readback.make(device, bytes));
  ErrorScope scope(device, ErrorScope::Catch::everything);
  for (std::uint32_t first = 0; first < queries; first += kQueriesPerSet) {
    WGPUQuerySetDescriptor descriptor{};
    descriptor.type = WGPUQueryType_Timestamp;
    descriptor.count = std::min(kQueriesPerSet, queries - first);
    sets.emplace_back(device.engine(), device.call().DeviceCreateQuerySet(device.handle(), &descriptor));
  }
  return scope.close("making timestamp queries");
}

WGPUPassTimestampWrites Timer::writes(std::size_t dispatch) const {
  const auto query = static_cast<std::uint32_t>(dispatch * 2);
  WGPUPassTimestampWrites writes{};
  writes.querySet = sets[query / kQueriesPerSet].get();
  writes.beginningOfPassWriteIndex = query % kQueriesPerSet;
  writes.endOfPassWriteIndex = query % kQueriesPerSet + 1;
  return writes;
}

void Timer::encode(const Functions& call, WGPUCommandEncoder encoder) const {
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const auto first = static_cast<std::uint32_t>(i) * kQueriesPerSet;
    call.CommandEncoderResolveQuerySet(encoder, sets[i].get(), 0, std::min(kQueriesPerSet, queries - first),
                                       resolved.get(), std::uint64_t{first} * 8);
  }
  call.CommandEncoderCopyBufferToBuffer(encoder, resolved.get(), 0, readback.buffer(), 0, std::uint64_t{queries} * 8);
}

Result<std::vector<DispatchTime>> Executor::profile(std::span<const HostOutput> outputs) {
  if (!device_.profile().timestamp_query) {
    return fail(ErrorCode::unsupported, "{} has no timestamp queries, so it cannot tell GPU times",
                device_.profile().name);
  }
  const auto dispatches = stepper_.dispatches();
  if (dispatches.empty()) {
    TRY(submit(outputs, nullptr));
    TRY(wait(outputs));
    return {};
  }
  Timer timer;
  TRY(timer.make(device_, dispatches.size()));
  TRY(submit(outputs, &timer));
  TRY(wait(outputs));
  {
    ErrorScope scope(device_, ErrorScope::Catch::validation);
    timer.readback.request(device_, std::uint64_t{timer.queries} * 8);
    TRY(scope.close("reading timestamps"));
  }
  TRY_ASSIGN(auto bytes, timer.readback.wait(device_, 0));
  const double period = device_.engine().timestamp_period(device_.queue());
  std::vector<DispatchTime> times;
  for (std::size_t i = 0; i < dispatches.size(); ++i) {
    std::array<std::uint64_t, 2> stamps{};
    std::memcpy(stamps.data(), bytes.data() + i * sizeof(stamps), sizeof(stamps));
    const auto ticks = stamps[1] > stamps[0] ? stamps[1] - stamps[0] : 0;
    times.push_back({model_->plan()->graph().nodes[dispatches[i]->node].op,
                     layout_.pipelines[dispatches[i]->pipeline].label, static_cast<double>(ticks) * period / 1000});
  }
  timer.readback.release(device_);
  return times;
}

}  // namespace nibble::gpu
