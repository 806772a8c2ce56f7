#include "generate/arithmetic.hpp"

#include <array>
#include <bit>

namespace nibble::generate {
namespace {

constexpr double kLog2E = 1.4426950408889634;
// ln 2 in two parts: the first has few bits, so that its products with exponents are exact.
constexpr double kLn2High = 0x1.62e42fee00000p-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
constexpr std::uint64_t kEuler = 0xb7e151628aed2a6b;

/// Of the series of e^x: one by the factorials.
constexpr auto kTerms = [] {
  std::array<double, 14> terms{1};
  for (std::size_t i = 1; i < terms.size(); ++i) terms[i] = terms[i - 1] / static_cast<double>(i);
  return terms;
}();

double power_of_two(std::int64_t exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

std::uint64_t mix(std::uint64_t x) {
  for (int round = 0; round < 3; ++round) {
    x = (x ^ (x >> 32)) * (round == 1 ? kGolden : kEuler);
  }
  return x ^ (x >> 32);
}

/// The upper half of a product of 128 bits.
std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kLow = 0xffffffff;
  const auto low = (a & kLow) * (b & kLow);
  const auto left = (a >> 32) * (b & kLow) + (low >> 32);
  const auto right = (a & kLow) * (b >> 32) + (left & kLow);
  return (a >> 32) * (b >> 32) + (left >> 32) + (right >> 32);
}

}  // namespace

double exponential(double x) {
  if (!(x > -700)) return 0;
  if (x > 700) x = 700;
  // x = n ln 2 + r, with |r| at most half of ln 2: there the series is exact to the last bits after 14 terms.
  const auto n = static_cast<std::int64_t>(x * kLog2E + (x < 0 ? -0.5 : 0.5));
  const auto steps = static_cast<double>(n);
  const double r = (x - steps * kLn2High) - steps * kLn2Low;
  double sum = kTerms.back();
  for (auto term = kTerms.size() - 1; term > 0; --term) sum = sum * r + kTerms[term - 1];
  return sum * power_of_two(n);
}

double logarithm(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(bits >> 52) - 1023;
  auto part = std::bit_cast<double>((bits & 0xfffffffffffff) | (std::uint64_t{1023} << 52));
  if (part > 1.4142135623730951) {
    part /= 2;
    ++exponent;
  }
  // ln part = 2 artanh s, a series in s^2 < 0.03.
  const double s = (part - 1) / (part + 1);
  double sum = 0;
  for (int term = 23; term > 0; term -= 2) sum = sum * (s * s) + 1.0 / term;
  const auto steps = static_cast<double>(exponent);
  return steps * kLn2High + (steps * kLn2Low + 2 * s * sum);
}

std::uint64_t weight(double x, double largest) {
  // Two infinities have no difference.
  if (x == largest) return kOne;
  return static_cast<std::uint64_t>(exponential(x - largest) * static_cast<double>(kOne));
}

std::uint64_t random_bits(std::uint64_t seed, std::uint64_t step) { return mix(mix(seed ^ kGolden) + step * kGolden); }

std::uint64_t draw_below(std::uint64_t end, std::uint64_t seed, std::uint64_t step) {
  return multiply_high(random_bits(seed, step), end);
}

}  // namespace nibble::generate
