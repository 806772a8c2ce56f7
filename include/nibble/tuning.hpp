// A tuning: which kernel variants are best on a device.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace nibble {

/// The variant that a choice selects for a range of rows and of widths. Ranges include both ends.
struct TuningRow {
  std::string choice = {};
  std::string variant = {};
  std::uint64_t min_rows = 0;
  std::uint64_t max_rows = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t min_width = 0;
  std::uint64_t max_width = std::numeric_limits<std::uint64_t>::max();

  friend bool operator==(const TuningRow&, const TuningRow&) = default;
};

}  // namespace nibble
