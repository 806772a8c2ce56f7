// Which element types a caller and a GPU buffer can exchange.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "nibble/types.hpp"

namespace nibble {

/// Whether elements can be converted between a device tensor and a caller's memory of type `host`, both ways.
bool converts(DType device, DType host) noexcept;

/// What converts() accepts, as text for errors.
std::string_view wanted_dtypes(DType device) noexcept;

/// The values that an integer input may hold: any int32, or valid rows if it is looked up in tables.
struct Range {
  std::int64_t lowest = std::numeric_limits<std::int32_t>::min();
  std::int64_t highest = std::numeric_limits<std::int32_t>::max();
};

/// An element that cannot be converted for the GPU.
struct BadElement {
  enum class Kind : std::uint8_t {
    range,      ///< an integer that does not fit
    fraction,   ///< not an integer, where one is needed
    no_number,  ///< not a number at all
  };
  Kind kind = Kind::range;
  std::uint64_t position = 0;  ///< flat
  /// None if it is not an int64; then `word` is its text.
  std::optional<std::int64_t> value = {};
  std::string_view word = {};
};

}  // namespace nibble
