#include "generate/arithmetic.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace nibble::generate {
namespace {

TEST(Arithmetic, exponentials_and_logarithms_are_right) {
  for (double x = -600; x < 600; x += 0.37) {
    EXPECT_NEAR(exponential(x) / std::exp(x), 1, 4e-16) << x;
    const double from_one = 1 + std::abs(x);
    EXPECT_NEAR(logarithm(from_one) / std::log(from_one), 1, 4e-16) << x;
  }
  EXPECT_EQ(exponential(0), 1);
  EXPECT_EQ(exponential(-INFINITY), 0);
  EXPECT_EQ(logarithm(1), 0);
  EXPECT_EQ(weight(3, 3), kOne);
  EXPECT_EQ(weight(INFINITY, INFINITY), kOne);
  EXPECT_EQ(weight(-28, 0), 0U);
  EXPECT_EQ(weight(1, INFINITY), 0U);
}

TEST(Arithmetic, gives_the_same_bits_on_every_machine) {
  EXPECT_EQ(std::bit_cast<std::uint64_t>(exponential(-0.7)), 0x3fdfc80db9dd5542);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(exponential(-13.37)), 0x3eba31ad57ba12f4);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(logarithm(12345.678)), 0x4022d79559791e31);
  EXPECT_EQ(random_bits(0, 0), 0x50a9d771c28c7fa8);
  EXPECT_EQ(random_bits(0, 1), 0xe9fc60fa4365d7b2);
  EXPECT_EQ(random_bits(1, 0), 0x37619825f281845d);
  EXPECT_EQ(random_bits(~0ULL, ~0ULL), 0x255dbb4e7314d1f2);
}

TEST(Arithmetic, each_bit_of_seed_and_step_changes_half_of_the_bits) {
  for (int bit = 0; bit < 64; ++bit) {
    int by_seed = 0;
    int by_step = 0;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      by_seed += std::popcount(random_bits(i, 5) ^ random_bits(i ^ (1ULL << bit), 5));
      by_step += std::popcount(random_bits(7, i) ^ random_bits(7, i ^ (1ULL << bit)));
    }
    EXPECT_NEAR(by_seed, 32000, 800) << bit;
    EXPECT_NEAR(by_step, 32000, 800) << bit;
  }
}

TEST(Arithmetic, draws_reach_both_ends_and_no_further) {
  EXPECT_EQ(draw_below(1, 3, 4), 0U);
  bool has_first = false;
  bool has_last = false;
  for (std::uint64_t step = 0; step < 200; ++step) {
    const auto drawn = draw_below(5, 1, step);
    ASSERT_LT(drawn, 5U);
    has_first |= drawn == 0;
    has_last |= drawn == 4;
    EXPECT_LT(draw_below(1ULL << 63, 1, step), 1ULL << 63);
  }
  EXPECT_TRUE(has_first && has_last);
}

}  // namespace
}  // namespace nibble::generate
