#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gpu/host_convert.hpp"

namespace nibble::gpu {
namespace {

TEST(HostConvert, every_half_survives_the_way_to_float_and_back) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    const float wide = float_from_half(half);
    if ((i & 0x7c00) == 0x7c00 && (i & 0x3ff) != 0) {
      EXPECT_TRUE(std::isnan(wide));
      EXPECT_TRUE(std::isnan(float_from_half(half_from_double(wide))));
    } else {
      EXPECT_EQ(half_from_double(wide), half);
    }
  }
}

TEST(HostConvert, halves_are_rounded_to_nearest_even_once) {
  EXPECT_EQ(half_from_double(1.0), 0x3c00);
  EXPECT_EQ(half_from_double(-2.0), 0xc000);
  EXPECT_EQ(half_from_double(1.0 + 0x1p-11), 0x3c00);            // halfway, down to even
  EXPECT_EQ(half_from_double(1.0 + 3 * 0x1p-11), 0x3c02);        // halfway, up to even
  EXPECT_EQ(half_from_double(1.0 + 0x1p-11 + 0x1p-40), 0x3c01);  // a float between would hide the last bit
  EXPECT_EQ(half_from_double(65504.0), 0x7bff);
  EXPECT_EQ(half_from_double(65519.99), 0x7bff);
  EXPECT_EQ(half_from_double(65520.0), 0x7c00);
  EXPECT_EQ(half_from_double(1e300), 0x7c00);
  EXPECT_EQ(half_from_double(0x1p-24), 0x0001);
  EXPECT_EQ(half_from_double(0x1p-25), 0x0000);
  EXPECT_EQ(half_from_double(-0x1p-25 * 1.001), 0x8001);
  EXPECT_EQ(half_from_double(0x1p-14 - 0x1p-26), 0x0400);  // a subnormal rounds up to the smallest normal
  EXPECT_EQ(half_from_double(-0.0), 0x8000);
  EXPECT_EQ(half_from_double(std::numeric_limits<double>::denorm_min()), 0x0000);
}

TEST(HostConvert, int64_that_does_not_fit_is_found_with_its_position) {
  std::vector<std::int64_t> from(3000, 7);
  std::vector<std::int32_t> to(from.size());
  from[1] = std::numeric_limits<std::int32_t>::min();
  from[2] = std::numeric_limits<std::int32_t>::max();
  EXPECT_FALSE(to_device(DType::i64, from.data(), DType::i32, to.data(), from.size(), {}));
  EXPECT_EQ(to[1], std::numeric_limits<std::int32_t>::min());
  from[2345] = std::int64_t{1} << 31;
  from[2999] = -1 - (std::int64_t{1} << 31);
  const auto bad = to_device(DType::i64, from.data(), DType::i32, to.data(), from.size(), {});
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->position, 2345U);
  EXPECT_EQ(bad->value, std::int64_t{1} << 31);
}

TEST(HostConvert, indices_are_checked_in_either_width) {
  const std::vector<std::int32_t> narrow = {0, 9, 10, -1};
  const std::vector<std::int64_t> wide = {0, 9, -1, 10};
  EXPECT_FALSE(find_outside(DType::i32, narrow.data(), 2, {0, 9}));
  EXPECT_EQ(find_outside(DType::i32, narrow.data(), 4, {0, 9})->position, 2U);
  EXPECT_EQ(find_outside(DType::i64, wide.data(), 4, {0, 9})->value, -1);
}

TEST(HostConvert, elements_go_both_ways_in_every_pair_of_types) {
  const std::vector<double> values = {0, -1.5, 2, 1024, 0.25};
  for (auto device : {DType::f16, DType::f32}) {
    for (auto host : {DType::f16, DType::f32, DType::f64}) {
      ASSERT_TRUE(converts(device, host));
      std::vector<std::byte> there(64);
      std::vector<std::byte> back(64);
      std::vector<double> result(values.size());
      to_device(DType::f64, values.data(), device, there.data(), values.size(), {});
      from_device(device, there.data(), host, back.data(), values.size());
      from_device(host, back.data(), DType::f64, result.data(), values.size());
      EXPECT_EQ(result, values) << static_cast<int>(device) << " as " << static_cast<int>(host);
    }
  }
  const std::vector<std::int32_t> ints = {-5, 7};
  std::vector<std::int64_t> wide(2);
  from_device(DType::i32, ints.data(), DType::i64, wide.data(), 2);
  EXPECT_EQ(wide, (std::vector<std::int64_t>{-5, 7}));
  const std::vector<std::uint8_t> truths = {0, 1, 255};
  std::vector<std::uint8_t> out(3);
  to_device(DType::u8, truths.data(), DType::boolean, out.data(), 3, {});
  EXPECT_EQ(out, (std::vector<std::uint8_t>{0, 1, 1}));
}

TEST(HostConvert, other_pairs_are_refused) {
  EXPECT_FALSE(converts(DType::i32, DType::f32));
  EXPECT_FALSE(converts(DType::f32, DType::i32));
  EXPECT_FALSE(converts(DType::i32, DType::u8));
  EXPECT_FALSE(converts(DType::boolean, DType::i32));
  EXPECT_FALSE(converts(DType::u8, DType::i8));
  EXPECT_TRUE(converts(DType::i8, DType::i8));
}

}  // namespace
}  // namespace nibble::gpu
