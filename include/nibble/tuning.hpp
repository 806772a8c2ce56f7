// What callers say about kernel variants: forced ones, and a tuning (which variants are best on a device).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace nibble {

/// A variant that a choice selects wherever it can. On the command line and in C: `product=tile`.
struct ForcedVariant {
  std::string choice = {};
  std::string variant = {};

  friend bool operator==(const ForcedVariant&, const ForcedVariant&) = default;
};

/// What a tuning was measured on. An empty text stands for any.
struct TunedOn {
  std::string device = {};
  std::string driver = {};
  std::string engine = {};
  std::string nibble = {};  ///< Nibble's version

  friend bool operator==(const TunedOn&, const TunedOn&) = default;
};

/// The variant that a choice selects for a range of rows, widths and depths. Ranges include both ends.
struct TuningRow {
  std::string choice = {};
  std::string variant = {};
  std::uint64_t min_rows = 0;
  std::uint64_t max_rows = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t min_width = 0;
  std::uint64_t max_width = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t min_depth = 0;  ///< such as the keys that an attention sees
  std::uint64_t max_depth = std::numeric_limits<std::uint64_t>::max();
  std::optional<std::uint32_t> traits = {};  ///< just these, of those that the choice knows; none: whatever they are
  TunedOn on = {};                           ///< elsewhere it says nothing

  friend bool operator==(const TuningRow&, const TuningRow&) = default;
};

}  // namespace nibble
