// Convolutions, with no GPU: what a program or a caller may have wrong.
#include <gtest/gtest.h>

#include "support/planning.hpp"

namespace nibble {
namespace {

using test::error_of;
using test::GraphBuilder;

GraphBuilder filter(Shape weight, std::int64_t groups) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, weight));
  const auto out = b.tensor(DType::f32, {4, 8});
  b.op("nibble.filter", {x, b.boolean(true), b.integer(groups), out});
  b.output(out);
  return b;
}

TEST(Convolution, filter_in_no_groups_is_refused) {
  EXPECT_MENTIONS(error_of(filter({4, 2, 3}, 0)), "no filters in 0 groups");
  EXPECT_MENTIONS(error_of(filter({4, 2, 3}, 3)), "no filters in 3 groups");
  EXPECT_MENTIONS(error_of(filter({4, 2}, 1)), "no filters in 1 groups");
  EXPECT_MENTIONS(error_of(filter({}, 1)), "no filters in 1 groups");
}

TEST(Convolution, norm_is_folded_into_channels) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {}));
  const auto out = b.tensor(DType::f32, {});
  const auto variance = b.input(b.tensor(DType::f32, {1}));
  b.op("nibble.fold_norm", {x, b.null(), b.null(), b.null(), variance, b.number(1e-5), b.boolean(false), out});
  b.output(out);
  EXPECT_MENTIONS(error_of(b), "source is a scalar");
}

/// One channel, and a filter of one row.
GraphBuilder depthwise(std::int64_t taps) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {1, 1, 1, taps}));
  const auto weight = b.constant(DType::f32, {1, 1, 1, taps}, "filter");
  const auto out = b.tensor(DType::f32, {1, 1, 1, 1});
  b.op("aten.convolution.default", {x, weight, b.null(), b.ints({1, 1}), b.ints({0, 0}), b.ints({1, 1}),
                                    b.boolean(false), b.ints({0, 0}), b.integer(1), out});
  b.output(out);
  return b;
}

DeviceProfile software() {
  DeviceProfile profile;
  profile.kind = AdapterKind::cpu;
  return profile;
}

TEST(Convolution, filter_that_a_thread_cannot_go_over_is_refused) {
  EXPECT_EQ(error_of(depthwise(1000), software()), "");
  EXPECT_MENTIONS(error_of(depthwise(70000), software()),
                  "takes 70001 steps, but on this device it may take 60000 at most");
}

/// Bytes whose zero point is given.
GraphBuilder bytes(std::int64_t zero) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::i8, {1, 4, 3, 3}));
  const auto out = b.tensor(DType::i8, {1, 4, 3, 3});
  b.op("et_vk.q8ta_conv2d.default", {x, b.number(0.1), b.integer(zero), b.constant(DType::i8, {4, 4}, "weights"),
                                     b.constant(DType::i32, {4}, "sums"), b.constant(DType::f32, {4}, "scales"),
                                     b.number(0.1), b.integer(0), b.null(), b.ints({1, 1}), b.ints({1, 1}),
                                     b.ints({0, 0}), b.ints({1, 1}), b.integer(1), b.value(std::string("none")), out});
  b.output(out);
  return b;
}

TEST(Convolution, zero_point_of_bytes_is_a_byte) {
  EXPECT_EQ(error_of(bytes(-128)), "");
  EXPECT_MENTIONS(error_of(bytes(128)), "input_zero_point is 128, but it must be from -128 to 127");
}

}  // namespace
}  // namespace nibble
