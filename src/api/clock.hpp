// The time of day, for figures.
#pragma once

#include <chrono>

namespace nibble {

inline double now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

}  // namespace nibble
