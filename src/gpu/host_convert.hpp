// Elements between the caller's memory and what GPU buffers hold. Pure functions, no GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "nibble/types.hpp"

namespace nibble::gpu {

/// IEEE half precision from a double, rounded once to nearest even, and back.
std::uint16_t half_from_double(double value) noexcept;
float float_from_half(std::uint16_t half) noexcept;

/// Whether elements of a device tensor can be exchanged with a caller's memory of `host`, either way.
bool converts(DType device, DType host) noexcept;

/// The values that an integer input may hold: int32, and where it is looked up in tables, their rows.
struct Range {
  std::int64_t lowest = std::numeric_limits<std::int32_t>::min();
  std::int64_t highest = std::numeric_limits<std::int32_t>::max();
};

struct BadElement {
  std::uint64_t position = 0;
  std::int64_t value = 0;
};

/// The first of `count` integers (int32 or int64) outside `range`.
std::optional<BadElement> find_outside(DType host, const void* from, std::size_t count, Range range) noexcept;

/// Converts `count` elements, converts(device, host). Integers outside `range` are found in the same pass; then `to`
/// holds nothing of use.
std::optional<BadElement> to_device(DType host, const void* from, DType device, void* to, std::size_t count,
                                    Range range) noexcept;

/// Converts `count` elements, converts(device, host).
void from_device(DType device, const void* from, DType host, void* to, std::size_t count) noexcept;

}  // namespace nibble::gpu
