#include "gpu/stop.hpp"

#include <algorithm>
#include <utility>

#include "gpu/process.hpp"

namespace nibble::gpu {
namespace {

thread_local bool (*stop_check)() = nullptr;
thread_local StopAfter::Clock::time_point stop_time = StopAfter::Clock::time_point::max();

}  // namespace

void set_stop_check(bool (*check)()) noexcept { stop_check = check; }

bool is_asked_to_stop() {
  if (stop_check == nullptr) return false;
  const WithoutEnd of_the_user;
  return stop_check();
}

bool is_stop_wanted() {
  constexpr auto kNever = StopAfter::Clock::time_point::max();
  return is_asked_to_stop() || (stop_time != kNever && StopAfter::Clock::now() >= stop_time);
}

StopAfter::StopAfter(Clock::time_point end) : before_(stop_time) { stop_time = std::min(end, before_); }
StopAfter::~StopAfter() { stop_time = before_; }
WithoutEnd::WithoutEnd() : before_(std::exchange(stop_time, StopAfter::Clock::time_point::max())) {}
WithoutEnd::~WithoutEnd() { stop_time = before_; }

Status check_stop_of_load() {
  if (!is_stop_wanted()) return check_process();  // the check may have forked
  return fail(ErrorCode::cancelled, "loading was cancelled");
}

}  // namespace nibble::gpu
