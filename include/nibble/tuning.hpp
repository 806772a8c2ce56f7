// What callers say about kernel variants: forced ones, and a tuning (which variants are best on a device).
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace nibble {

/// A variant that a choice selects wherever it can. On the command line and in C: `product=tile`.
struct ForcedVariant {
  std::string choice = {};
  std::string variant = {};

  friend bool operator==(const ForcedVariant&, const ForcedVariant&) = default;
};

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
