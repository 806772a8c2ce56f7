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

/// `out`'s dimensions with every operand's strides in them (0 where an operand is repeated), neighbours merged where
/// all operands walk through them as through one. Returns the number of dimensions left.
std::uint32_t collapse_broadcast(const Shape& out, std::span<const Shape> operands, Dims& sizes,
                                 std::span<Dims> strides);

/// How a thread that makes four neighbouring elements reads an operand; the numbers are the kernels'.
enum class Reading : std::uint8_t {
  as_output = 0,  ///< element i of the output comes from element i
  one = 1,        ///< one element for all
  by_element = 2,
  by_quad = 3,      ///< four neighbours, which begin at a multiple of four
  one_by_quad = 4,  ///< one element for the four
};

/// With `strides` as collapse_broadcast() gave them for the operand's live shape. The largest shapes decide what they
/// can, so that a call with smaller ones seldom reads in a way of its own, which would take a pipeline of its own.
Reading reading_of(const Shape& operand, const Shape& out, const Shape& largest_operand, const Shape& largest_out,
                   std::uint32_t rank, const Dims& sizes, const Dims& strides);

}  // namespace nibble::ops
