// Index arithmetic that kernels share: broadcasting, and shapes with adjacent dimensions merged.
#pragma once

#include <array>
#include <span>

#include "nibble/types.hpp"

namespace nibble::ops {

/// Eight numbers, as two vec4<u32> of a uniform block. Outermost dimension first.
using Dims = std::array<std::uint32_t, Shape::kMaxRank>;

/// The common shape of two operands, as NumPy and torch have it; false when there is none.
bool broadcast(const Shape& a, const Shape& b, Shape& out);

/// As many may be broadcast at once.
constexpr std::size_t kMostOperands = 6;

/// `out`'s dimensions with every operand's strides in them (0 where an operand is repeated), neighbours merged where
/// all operands walk through them as through one. Returns the number of dimensions left.
std::uint32_t collapse_broadcast(const Shape& out, std::span<const Shape> operands, Dims& sizes,
                                 std::span<Dims> strides);

}  // namespace nibble::ops
