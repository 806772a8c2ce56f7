// Whether a variant computes the same as another: what the tuner compares before it times one.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "plan/tuning_data.hpp"
#include "plan/variant.hpp"

namespace nibble {
namespace {

template <class T>
bool do_agree(DType dtype, const std::vector<T>& a, const std::vector<T>& b, float tolerance = 2e-3F) {
  return agree(dtype, std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), tolerance);
}

TEST(TuningAgreement, results_agree_up_to_what_another_order_of_sums_changes) {
  using Floats = std::vector<float>;
  using Bytes = std::vector<std::int8_t>;
  const auto near = [](const Floats& a, const Floats& b) { return do_agree(DType::f32, a, b); };
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const auto inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(near({1, -100, nan, inf}, {1.001F, -100.1F, nan, inf}));
  EXPECT_TRUE(near({1e-9F, 1}, {0, 1}));
  EXPECT_FALSE(near({1, 1}, {1, 1.01F}));
  EXPECT_FALSE(near({1, nan}, {1, 1}));
  EXPECT_FALSE(near({1, 1}, {1, nan}));
  EXPECT_FALSE(near({1, inf}, {1, -inf}));
  EXPECT_FALSE(near({0, 0}, {0, 1e-9F}));
  EXPECT_FALSE(near({1, 1}, {1}));
  EXPECT_FALSE(do_agree<float>(DType::f32, {1, 1}, {1, 1.001F}, 1e-4F));
  EXPECT_TRUE(do_agree(DType::i8, Bytes{-128, 5}, Bytes{-127, 5}));
  EXPECT_FALSE(do_agree(DType::i8, Bytes{-128, 5}, Bytes{127, 5}));
  EXPECT_FALSE(do_agree(DType::boolean, Bytes{0}, Bytes{1}));
}

TEST(TuningAgreement, token_numbers_may_not_differ) {
  EXPECT_TRUE(do_agree<std::int32_t>(DType::i32, {7, 100000}, {7, 100000}));
  EXPECT_FALSE(do_agree<std::int32_t>(DType::i32, {7, 100000}, {7, 100001}));
}

TEST(TuningAgreement, what_is_moved_may_not_differ_at_all_whatever_its_type) {
  EXPECT_TRUE(do_agree<std::int32_t>(DType::i32, {7, 8}, {7, 8}, 0));
  EXPECT_FALSE(do_agree<std::int32_t>(DType::i32, {7, 8}, {7, 9}, 0));
  EXPECT_FALSE(do_agree<std::int8_t>(DType::i8, {7, 8}, {7, 9}, 0));
  EXPECT_FALSE(do_agree<std::uint8_t>(DType::u8, {7, 8}, {7, 9}, 0));
  EXPECT_FALSE(do_agree<float>(DType::f32, {7, 8}, {7, 8.000001F}, 0));
}

// On 128 by 128 products of depth 256 the largest difference is around 2^-9: by luck of the data below or above.
TEST(TuningAgreement, float16_may_differ_by_its_last_bits_and_sums_of_it_by_more_but_what_is_moved_not_at_all) {
  EXPECT_EQ(tolerance_of({"sums", {}}, DType::f32, {}), 1e-4F);
  EXPECT_EQ(tolerance_of({"sums", {}}, DType::f16, {}), 0x1p-9F);
  DeviceProfile halves;
  halves.f16_products = true;
  EXPECT_EQ(tolerance_of({.name = "products", .variants = {}, .in_halves = true}, DType::f32, halves), 0x1p-7F);
  EXPECT_EQ(tolerance_of({.name = "products", .variants = {}, .in_halves = true}, DType::f32, {}), 1e-4F);
  EXPECT_EQ(tolerance_of({.name = "products", .variants = {}, .in_halves = true}, DType::f16, halves), 0x1p-7F);
  EXPECT_EQ(tolerance_of({"sums", {}}, DType::f32, halves), 1e-4F);
  EXPECT_EQ(tolerance_of({"sums", {}}, DType::f16, halves), 0x1p-9F);
  EXPECT_EQ(tolerance_of({"moved", {}, 0}, DType::f16, {}), 0);
}

}  // namespace
}  // namespace nibble
