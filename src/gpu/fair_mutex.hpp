// A lock that goes to whoever waits for it longest.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace nibble::gpu {

/// std::mutex may go to the thread that gave it back, again and again: one with many short calls would keep others from
/// theirs.
class FairMutex {
 public:
  void lock() {
    std::unique_lock guard(mutex_);
    const auto ticket = next_++;
    changed_.wait(guard, [&] { return ticket == served_; });
  }
  void unlock() {
    {
      const std::lock_guard guard(mutex_);
      ++served_;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ = 0;
  std::uint64_t served_ = 0;
};

}  // namespace nibble::gpu
