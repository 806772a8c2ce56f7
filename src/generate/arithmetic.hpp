// Arithmetic that gives the same bits everywhere: only sums, products and quotients of doubles, never joined into one
// step (-ffp-contract=off), and integers. The functions of a C library differ in their last bits.
#pragma once

#include <cstdint>

namespace nibble::generate {

/// e to the power of x; 0 from -700 down, and e^700 from there up.
double exponential(double x);

/// The natural logarithm of a number from 1 on.
double logarithm(double x);

/// What a token of the largest logit weighs. 2^23 of them still fit 64 bits, in sums with room to spare.
inline constexpr std::uint64_t kOne = std::uint64_t{1} << 40;
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 23;

/// e^(x - largest) in units of 1 / kOne, rounded down. Infinite numbers are fine where x is at most the largest.
std::uint64_t weight(double x, double largest);

/// A number from 0 to `end` - 1 by which step `step` of a generation with this seed draws. Each value depends on seed
/// and step alone, so steps can be repeated, skipped or taken in any order.
std::uint64_t draw_below(std::uint64_t end, std::uint64_t seed, std::uint64_t step);

/// The 64 random bits behind it: seed and step are mixed by multiplications with odd numbers (the first bits of the
/// golden ratio's and e's fractions) and by folding the upper half into the lower, three times.
std::uint64_t random_bits(std::uint64_t seed, std::uint64_t step);

}  // namespace nibble::generate
