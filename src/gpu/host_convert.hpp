// Converts elements between the caller's memory and the form in GPU buffers. Pure functions, no GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "boundary/elements.hpp"

namespace nibble::gpu {

/// IEEE half precision from a double, rounded once to nearest even, and back.
std::uint16_t half_from_double(double value) noexcept;
float float_from_half(std::uint16_t half) noexcept;

/// The first of `count` integers (int32 or int64) outside `range`.
std::optional<BadElement> find_outside(DType host, const void* from, std::size_t count, Range range) noexcept;

/// Converts `count` elements; converts(device, host) must be true. Gives the first integer outside `range`, if any;
/// `to` is then not usable.
std::optional<BadElement> to_device(DType host, const void* from, DType device, void* to, std::size_t count,
                                    Range range) noexcept;

/// Converts `count` elements; converts(device, host) must be true.
void from_device(DType device, const void* from, DType host, void* to, std::size_t count) noexcept;

}  // namespace nibble::gpu
