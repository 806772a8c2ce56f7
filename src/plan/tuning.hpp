// Which kernels were measured to be best on a device: an input of planning, like the device's profile.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace nibble {

/// Where a choice is made for so many rows and columns, this variant of it is taken, if it is right there.
struct TuningRow {
  std::string choice;
  std::string variant;
  std::uint64_t min_rows = 0;
  std::uint64_t max_rows = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t min_width = 0;
  std::uint64_t max_width = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace nibble
