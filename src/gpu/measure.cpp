// A call again and again, for a tuner: what it takes, without what is read and written around it.
#include "gpu/executor.hpp"
#include "gpu/timer.hpp"

namespace nibble::gpu {

Result<double> Executor::measure(std::uint32_t times) {
  TRY(check_ready());
  if (stepper_.dispatches().empty()) return 0.0;
  TRY(prepare());
  TRY(check_process());
  writes_.release();
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
    TRY_ASSIGN(const auto stamps, timer->read(device_));
    const double taken = Timer::microseconds(device_, stamps[0], stamps[1]);
    if (taken > 0) return taken / times;
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
