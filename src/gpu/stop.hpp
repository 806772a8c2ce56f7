// How a call or a load ends before its time: it looks here between submissions.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "graph/status.hpp"

namespace nibble::gpu {

/// Asked on the thread that set it, between the submissions of its calls and loads, and while large programs are
/// planned: true means that they shall stop. Null for none.
void set_stop_check(bool (*check)()) noexcept;
/// The answer of this thread's check, or that its time is over.
bool is_stop_wanted();
/// The answer of the check alone.
bool is_asked_to_stop();

/// While it lives, what this thread calls and loads shall stop from then on, too. The earliest of several counts.
class StopAfter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit StopAfter(Clock::time_point end);
  StopAfter(const StopAfter&) = delete;
  StopAfter& operator=(const StopAfter&) = delete;
  ~StopAfter();

 private:
  Clock::time_point before_;
};

/// While it lives, no time ends what this thread calls and loads: for the user's own code, within work that has one.
class WithoutEnd {
 public:
  WithoutEnd();
  WithoutEnd(const WithoutEnd&) = delete;
  WithoutEnd& operator=(const WithoutEnd&) = delete;
  ~WithoutEnd();

 private:
  StopAfter::Clock::time_point before_;
};

/// The error of a load whose thread wants to stop.
Status check_stop_of_load();

/// Whether a call is under way, and whether somebody wants it to stop. Only cancel() may come from other threads.
class CallState {
 public:
  void begin() noexcept { state_ = State::under_way; }
  void cancel() noexcept {
    auto expected = State::under_way;
    state_.compare_exchange_strong(expected, State::cancelled);
  }
  bool is_cancelled() const noexcept { return state_ == State::cancelled; }
  /// Ends the call. True if it was cancelled until now.
  bool end() noexcept { return state_.exchange(State::idle) == State::cancelled; }

 private:
  enum class State : std::uint8_t { idle, under_way, cancelled };
  std::atomic<State> state_ = State::idle;
};

}  // namespace nibble::gpu
