#include "graph/size.hpp"

#include <gtest/gtest.h>

namespace nibble {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(Size, computes_plain_numbers) {
  EXPECT_EQ((Size(3) * 4 + 5 - 2).unchecked(), 15U);
  EXPECT_EQ(Size(17).align_up(16).unchecked(), 32U);
  EXPECT_EQ(Size(0).align_up(16).unchecked(), 0U);
  EXPECT_EQ(Size(9).div_up(4).unchecked(), 3U);
}

TEST(Size, is_poisoned_by_overflow_and_stays_so) {
  EXPECT_FALSE((Size(kMax) + 1).valid());
  EXPECT_FALSE((Size(kMax) * 2).valid());
  EXPECT_FALSE((Size(1) - 2).valid());
  EXPECT_FALSE(((Size(kMax) + 1) * 0).valid());
  EXPECT_FALSE(Size::from_signed(-1).valid());
  EXPECT_FALSE(Size(kMax).align_up(16).valid());
  EXPECT_FALSE(Size(kMax).div_up(4).valid());
  EXPECT_FALSE((Size(kMax) + 1).fits(kMax));
}

TEST(Size, names_what_overflowed) {
  const auto result = (Size(kMax) * 2).get("the size of input 3");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "the size of input 3 does not fit 64 bits");
}

TEST(Size, counts_elements_and_bytes_of_shapes) {
  EXPECT_EQ(Size::of({2, 3, 4}).unchecked(), 24U);
  EXPECT_EQ(Size::of({}).unchecked(), 1U);
  EXPECT_EQ(Size::of({5, 0}).unchecked(), 0U);
  EXPECT_EQ(Size::bytes({3, 5}, DType::f16).unchecked(), 30U);
  EXPECT_FALSE(Size::bytes({1LL << 40, 1LL << 30}, DType::f32).valid());
}

TEST(Shape, holds_at_most_eight_dimensions) {
  Shape s;
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(s.push_back(i));
  EXPECT_FALSE(s.push_back(8));
  EXPECT_EQ(to_string(s), "[0, 1, 2, 3, 4, 5, 6, 7]");
}

}  // namespace
}  // namespace nibble
