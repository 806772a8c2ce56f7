// Which elements a caller and a GPU buffer can exchange.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "nibble/types.hpp"

namespace nibble {

/// Whether elements of a device tensor can be exchanged with a caller's memory of `host`, either way.
bool converts(DType device, DType host) noexcept;

/// What converts() accepts, for people.
std::string_view wanted_dtypes(DType device) noexcept;

/// The values that an integer input may hold: int32, and where it is looked up in tables, their rows.
struct Range {
  std::int64_t lowest = std::numeric_limits<std::int32_t>::min();
  std::int64_t highest = std::numeric_limits<std::int32_t>::max();
};

/// An element that cannot be what the GPU should get.
struct BadElement {
  enum class Kind : std::uint8_t {
    range,      ///< an integer that does not fit
    fraction,   ///< a number, where only integers will do
    no_number,  ///< no number at all
  };
  Kind kind = Kind::range;
  std::uint64_t position = 0;  ///< flat
  /// None for what is no int64; then `word` tells it.
  std::optional<std::int64_t> value = {};
  std::string_view word = {};
};

}  // namespace nibble
