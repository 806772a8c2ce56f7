#include "ops/elementwise/strides.hpp"

#include <gtest/gtest.h>

namespace nibble::ops {
namespace {

TEST(Broadcast, follows_torch) {
  Shape out;
  EXPECT_TRUE(broadcast({2, 1, 4}, {3, 1}, out));
  EXPECT_EQ(out, (Shape{2, 3, 4}));
  EXPECT_TRUE(broadcast({}, {5}, out));
  EXPECT_EQ(out, (Shape{5}));
  EXPECT_TRUE(broadcast({0, 3}, {1}, out));
  EXPECT_EQ(out, (Shape{0, 3}));
  EXPECT_FALSE(broadcast({2}, {3}, out));
  EXPECT_FALSE(broadcast({0}, {3}, out));
}

// The strides must reproduce what walking both operands by hand gives, for every pair of shapes over {1, 2, 3}.
TEST(CollapseBroadcast, agrees_with_walking_the_operands) {
  const auto shape_of = [](int code) {
    Shape s;
    for (int i = 0; i < 4; ++i, code /= 3) s.push_back(1 + code % 3);
    return s;
  };
  for (int x = 0; x < 81; ++x) {
    for (int y = 0; y < 81; ++y) {
      const Shape a = shape_of(x);
      const Shape b = shape_of(y);
      Shape out;
      if (!broadcast(a, b, out)) continue;
      Dims sizes{};
      std::array<Dims, 2> strides{};
      const auto rank = collapse_broadcast(out, std::array{a, b}, sizes, strides);
      for (std::int64_t i = 0; i < out.numel(); ++i) {
        std::int64_t want_a = 0;
        std::int64_t want_b = 0;
        std::int64_t rest = i;
        std::int64_t a_step = 1;
        std::int64_t b_step = 1;
        for (std::size_t d = 4; d-- > 0;) {
          const auto at = rest % out[d];
          rest /= out[d];
          want_a += a[d] == 1 ? 0 : at * a_step;
          want_b += b[d] == 1 ? 0 : at * b_step;
          a_step *= a[d];
          b_step *= b[d];
        }
        std::int64_t got_a = 0;
        std::int64_t got_b = 0;
        rest = i;
        for (std::uint32_t d = rank; d-- > 0;) {
          got_a += rest % sizes[d] * strides[0][d];
          got_b += rest % sizes[d] * strides[1][d];
          rest /= sizes[d];
        }
        ASSERT_EQ(got_a, want_a) << to_string(a) << to_string(b) << i;
        ASSERT_EQ(got_b, want_b) << to_string(a) << to_string(b) << i;
      }
    }
  }
}

TEST(CollapseBroadcast, merges_what_is_one_run) {
  Dims sizes{};
  std::array<Dims, 2> strides{};
  const Shape all{2, 3, 4};
  EXPECT_EQ(collapse_broadcast(all, std::array{all, all}, sizes, strides), 1U);
  EXPECT_EQ(sizes[0], 24U);
  EXPECT_EQ(collapse_broadcast(all, std::array{all, Shape{4}}, sizes, strides), 2U);
}

}  // namespace
}  // namespace nibble::ops
