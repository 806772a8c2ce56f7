// What a device's loads and calls do, and when: recorded while somebody traces it.
#pragma once

#include <atomic>
#include <cstddef>
#include <limits>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "graph/status.hpp"
#include "nibble/trace.hpp"
#include "nibble/values.hpp"

namespace nibble::gpu {

/// Microseconds of the steady clock, on which everything is recorded.
double now_us() noexcept;

/// From any thread.
class Tracer {
 public:
  static constexpr std::size_t kMostEvents = 1 << 20;

  explicit Tracer(std::size_t most_events = kMostEvents) : most_events_(most_events) {}

  /// An error if a trace is under way.
  Status start();
  /// Ends the trace. An error if none is under way.
  Result<Trace> stop();
  bool is_on() const noexcept { return is_on_.load(std::memory_order_relaxed); }

  /// A phase of the calling thread, on the steady clock. What began before the trace is no part of it.
  void add_phase(const char* name, std::string_view kernel, double start, double end) noexcept;
  void add_dispatches(std::span<const DispatchTime> dispatches) noexcept;

  /// What to add to the GPU's time to have that of the steady clock. All that is known of it: what the GPU did from
  /// `first` to `last` lay between `submitted` and `done`. So it is the same from call to call, as far as it can be.
  double offset(double first, double last, double submitted, double done);

 private:
  template <class Make>
  void add(double start, const Make& make) noexcept;

  const std::size_t most_events_;
  std::atomic<bool> is_on_ = false;
  std::mutex mutex_;
  Trace trace_;
  double begin_ = 0;
  std::vector<std::thread::id> threads_;  ///< their numbers, from 1 on
  double offset_ = -std::numeric_limits<double>::infinity();
};

/// A phase of the host's work: from here to the end of the block, if not to next() or end().
class Phase {
 public:
  /// `name` is a literal; `kernel` stays until the end.
  Phase(Tracer& tracer, const char* name, std::string_view kernel = {})
      : tracer_(tracer.is_on() ? &tracer : nullptr), name_(name), kernel_(kernel) {
    if (tracer_ != nullptr) start_ = now_us();
  }
  ~Phase() { end(); }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

  /// Ends this phase, and begins another.
  void next(const char* name) {
    add();
    name_ = name;
  }
  void end() {
    add();
    tracer_ = nullptr;
  }

 private:
  void add() {
    if (tracer_ == nullptr) return;
    const double now = now_us();
    tracer_->add_phase(name_, kernel_, start_, now);
    start_ = now;
  }

  Tracer* tracer_;
  const char* name_;
  std::string_view kernel_;
  double start_ = 0;
};

}  // namespace nibble::gpu
