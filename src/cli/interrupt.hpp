// Ctrl-C: the first one cancels what is under way, the second one ends the process.
#pragma once

#include <csignal>

#include "graph/status.hpp"

namespace nibble::cli {

/// The exit code of a command that Ctrl-C stopped, as of one that the signal ended.
inline constexpr int kInterrupted = 130;

/// While it lives, calls and loads of this thread stop at Ctrl-C.
class StopAtInterrupt {
 public:
  StopAtInterrupt();
  ~StopAtInterrupt();
  StopAtInterrupt(const StopAtInterrupt&) = delete;
  StopAtInterrupt& operator=(const StopAtInterrupt&) = delete;

  /// An error after Ctrl-C, for between calls.
  static Status check();

 private:
  struct sigaction before_{};
};

}  // namespace nibble::cli
