#include <algorithm>
#include <utility>

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

Result<std::vector<std::uint64_t>> Timer::read(Device& device) {
  {
    ErrorScope scope(device, ErrorScope::Catch::validation);
    readback.request(device, std::uint64_t{queries} * 8);
    TRY(scope.close("reading timestamps"));
  }
  TRY_ASSIGN(const auto bytes, readback.wait(device, 0));
  std::vector<std::uint64_t> stamps(queries);
  std::memcpy(stamps.data(), bytes.data(), bytes.size());
  readback.release(device);
  return stamps;
}

double Timer::microseconds(Device& device, std::uint64_t from, std::uint64_t to) {
  return to > from ? static_cast<double>(to - from) * device.engine().timestamp_period(device.queue()) / 1000 : 0;
}

Result<std::vector<DispatchTime>> Executor::profile(std::span<const HostOutput> outputs) {
  if (!device_.profile().timestamp_query) {
    return fail(ErrorCode::unsupported, "{} has no timestamp queries, so it cannot tell GPU times",
                device_.profile().name);
  }
  TRY(submit(outputs, true));
  TRY(wait(outputs));
  return std::move(times_);
}

Status Executor::make_timer() {
  const std::size_t dispatches = stepper_.dispatches().size();
  if (dispatches == 0 || (timer_ && timer_->queries == dispatches * 2)) return {};
  auto timer = std::make_unique<Timer>();
  TRY(timer->make(device_, dispatches));
  timer_ = std::move(timer);
  return {};
}

Status Executor::read_times() {
  auto timer = std::exchange(timer_, nullptr);  // if this fails, the next call makes another
  const Phase phase(device_.tracer(), "read times");
  TRY_ASSIGN(const auto stamps, timer->read(device_));
  const auto since = [&](std::uint64_t stamp, std::uint64_t start) {
    return Timer::microseconds(device_, start, stamp);
  };
  const std::uint64_t first = *std::ranges::min_element(stamps);
  const double first_us = since(first, 0);
  const double last_us = first_us + since(*std::ranges::max_element(stamps), first);
  const double origin = first_us + device_.tracer().offset(first_us, last_us, timer->submitted, timer->done);
  const auto dispatches = stepper_.dispatches();
  for (std::size_t i = 0; i < dispatches.size(); ++i) {
    const auto& dispatch = *dispatches[i];
    times_.push_back({model_->plan()->graph().nodes[dispatch.node].op, layout_.pipelines[dispatch.pipeline].label,
                      since(stamps[2 * i + 1], stamps[2 * i]), dispatch.node, origin + since(stamps[2 * i], first)});
  }
  device_.tracer().add_dispatches(times_);
  timer_ = std::move(timer);
  return {};
}

}  // namespace nibble::gpu
