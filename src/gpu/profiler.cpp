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

Result<std::vector<double>> Timer::read(Device& device) {
  {
    ErrorScope scope(device, ErrorScope::Catch::validation);
    readback.request(device, std::uint64_t{queries} * 8);
    TRY(scope.close("reading timestamps"));
  }
  TRY_ASSIGN(const auto bytes, readback.wait(device, 0));
  const double period = device.engine().timestamp_period(device.queue());
  std::vector<double> times;
  for (std::size_t i = 0; i < queries / 2; ++i) {
    std::array<std::uint64_t, 2> stamps{};
    std::memcpy(stamps.data(), bytes.data() + i * sizeof(stamps), sizeof(stamps));
    const auto ticks = stamps[1] > stamps[0] ? stamps[1] - stamps[0] : 0;
    times.push_back(static_cast<double>(ticks) * period / 1000);
  }
  readback.release(device);
  return times;
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
  TRY_ASSIGN(const auto all, timer.read(device_));
  std::vector<DispatchTime> times;
  for (std::size_t i = 0; i < dispatches.size(); ++i) {
    times.push_back({model_->plan()->graph().nodes[dispatches[i]->node].op,
                     layout_.pipelines[dispatches[i]->pipeline].label, all[i]});
  }
  return times;
}

Result<double> Executor::measure(std::uint32_t times) {
  TRY(check_ready());
  if (stepper_.dispatches().empty()) return 0.0;
  TRY(prepare());
  TRY(check_process());
  TRY(settle_writes());
  fault_unread_ = can_fault_;
  return stepper_.batches().size() == 1 ? measure_passes(times) : measure_batches(times);
}

// What was written to buffers is not what is measured.
Status Executor::settle_writes() {
  Submission submission = 0;
  {
    ErrorScope scope(device_, ErrorScope::Catch::everything);
    TRY(scope.close("writing what is measured"));  // nothing may be submitted to a lost device
    submission = device_.submit_writes();
    TRY(scope.settle("writing what is measured"));
  }
  device_.wait(submission);
  return device_.check();
}

Result<double> Executor::measure_passes(std::uint32_t times) {
  std::optional<Timer> timer;
  if (device_.profile().timestamp_query) TRY(timer.emplace().make(device_, 1));
  const auto start = StopAfter::Clock::now();
  Submission submission{};
  {
    ErrorScope scope(device_, ErrorScope::Catch::validation);
    const CommandEncoder encoder = device_.make_encoder();
    dispatcher_->encode_again(encoder.get(), times, timer ? &*timer : nullptr);
    const CommandBuffer commands = device_.finish(encoder);
    TRY(scope.close("encoding what is measured"));
    submission = device_.submit(commands);
    TRY(scope.settle("submitting what is measured"));
  }
  device_.wait(submission);
  TRY(device_.check());
  if (timer) {
    TRY_ASSIGN(const auto all, timer->read(device_));
    if (all[0] > 0) return all[0] / times;
  }
  return std::chrono::duration<double, std::micro>(StopAfter::Clock::now() - start).count() / times;
}

Result<double> Executor::measure_batches(std::uint32_t times) {
  const auto start = StopAfter::Clock::now();
  InFlight flight;
  for (std::uint32_t time = 0; time < times; ++time) {
    std::size_t begin = 0;
    for (const auto end : stepper_.batches()) {
      TRY(flight.make_room(device_));
      if (is_stop_wanted()) {
        TRY(flight.drain(device_));
        return fail(ErrorCode::cancelled, "measuring was cancelled");
      }
      ErrorScope scope(device_, ErrorScope::Catch::validation);
      const CommandEncoder encoder = device_.make_encoder();
      dispatcher_->encode(encoder.get(), begin, end, nullptr);
      const CommandBuffer commands = device_.finish(encoder);
      TRY(scope.close("encoding what is measured"));
      flight.add(device_.submit(commands));
      TRY(scope.settle("submitting what is measured"));
      begin = end;
    }
  }
  TRY(flight.drain(device_));
  return std::chrono::duration<double, std::micro>(StopAfter::Clock::now() - start).count() / times;
}

}  // namespace nibble::gpu
