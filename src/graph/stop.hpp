// How work that may take long hears that it shall end.
#pragma once

#include <cstdint>

#include "graph/status.hpp"

namespace nibble {

/// Asked now and then by what takes long: true means that it shall end. Null: it goes on to its end.
using IsStopWanted = bool (*)();

/// Asks whenever much was done, because asking may take longer than planning a small program. A yes is remembered.
class StopCheck {
 public:
  explicit StopCheck(IsStopWanted is_wanted) : is_wanted_(is_wanted) {}

  /// Comes after as much work as looking at so many nodes.
  Status after(std::uint64_t nodes) {
    done_ += nodes;
    if (is_wanted_ == nullptr || (done_ < kNodesPerQuestion && !is_stopped_)) return {};
    done_ = 0;
    is_stopped_ = is_stopped_ || is_wanted_();
    if (!is_stopped_) return {};
    return fail(ErrorCode::cancelled, "loading was cancelled while the program was planned");
  }

 private:
  static constexpr std::uint64_t kNodesPerQuestion = 4096;

  IsStopWanted is_wanted_;
  std::uint64_t done_ = 0;
  bool is_stopped_ = false;
};

}  // namespace nibble
