// How a call or a load ends before its time: it looks here between submissions.
#pragma once

#include <array>
#include <atomic>

#include "gpu/device.hpp"

namespace nibble::gpu {

/// Asked on the thread that set it, between the submissions of its calls and loads: true means that they shall stop.
/// Null for none.
void set_stop_check(bool (*check)()) noexcept;
/// The answer of this thread's check.
bool is_stop_wanted();
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

/// What the GPU still works on: two submissions at most, so that it never idles, and what was submitted ends soon.
class InFlight {
 public:
  explicit InFlight(Device& device) : device_(device) {}

  /// Waits until there is room for one more.
  Status make_room() {
    if (count_ < all_.size()) return {};
    device_.wait(all_[count_ % all_.size()]);
    return device_.check();
  }
  void add(Submission submission) { all_[count_++ % all_.size()] = submission; }
  std::size_t count() const { return count_; }  ///< in all
  Submission last() const { return all_[(count_ - 1) % all_.size()]; }
  /// Waits for all of them.
  Status drain() {
    if (count_ != 0) device_.wait(last());
    return device_.check();
  }

 private:
  Device& device_;
  std::array<Submission, 2> all_{};
  std::size_t count_ = 0;
};

}  // namespace nibble::gpu
