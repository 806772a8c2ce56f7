// The submissions of a call or a load that is cut into batches.
#pragma once

#include <array>

#include "gpu/device.hpp"

namespace nibble::gpu {

/// What the GPU still works on: two submissions at most, so that it never idles, and what was submitted ends soon.
class InFlight {
 public:
  /// Waits until there is room for one more.
  Status make_room(Device& device) {
    if (count_ < all_.size()) return {};
    const Phase phase(device.tracer(), "wait");
    device.wait(all_[count_ % all_.size()]);
    return device.check();
  }
  void add(Submission submission) { all_[count_++ % all_.size()] = submission; }
  std::size_t submitted() const { return count_; }  ///< in all
  Submission last() const { return all_[(count_ - 1) % all_.size()]; }
  /// Waits for all of them.
  Status drain(Device& device) const {
    const Phase phase(device.tracer(), "wait");
    if (count_ != 0) device.wait(last());
    return device.check();
  }

 private:
  std::array<Submission, 2> all_{};
  std::size_t count_ = 0;
};

}  // namespace nibble::gpu
