// Ops that write what they read.
#include <gtest/gtest.h>

#include "support/planning.hpp"

namespace nibble {
namespace {

using test::error_of;
using test::GraphBuilder;

GraphBuilder layer_norm_in_place(bool are_all_read) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {3, 8}));
  const auto mean = b.tensor(DType::f32, {3, 1});
  const auto rstd = b.tensor(DType::f32, {3, 1});
  b.op("aten.native_layer_norm.default", {x, b.ints({8}), b.null(), b.null(), b.number(1e-5), b.list({x, mean, rstd})});
  b.output(x);
  if (are_all_read) b.output(mean);
  return b;
}

TEST(InPlace, one_result_of_a_list_goes_through_a_second_buffer) {
  EXPECT_EQ(error_of(layer_norm_in_place(false)), "");
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {1, 2, 3, 3}));
  const auto row = b.constant(DType::f32, {2});
  b.op("aten._native_batch_norm_legit_no_training.default",
       {x, row, row, row, row, b.number(0.1), b.number(1e-5), b.list({x})});
  b.output(x);
  EXPECT_EQ(error_of(b), "");
}

TEST(InPlace, several_results_and_state_must_lie_apart_from_what_is_read) {
  EXPECT_EQ(error_of(layer_norm_in_place(true)),
            "aten.native_layer_norm.default: out has the memory of input, which is read while it is written");
  GraphBuilder b;
  const auto cache = b.constant(DType::f32, {1, 4, 2, 4});
  const auto out = b.tensor(DType::f32, {1, 4, 2, 4});
  b.op("update_cache.default", {cache, cache, b.integer(0), out});
  b.output(cache);
  EXPECT_EQ(error_of(b), "update_cache.default: cache has the memory of value, which is read while it is written");
}

TEST(Convolution, groups_are_at_most_as_many_as_channels) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 0, 5, 5}));
  const auto out = b.tensor(DType::f32, {2, 0, 5, 5});
  b.op("aten.convolution.default",
       {x, b.constant(DType::f32, {0, 0, 1, 1}), b.null(), b.ints({1, 1}), b.ints({0, 0}), b.ints({1, 1}),
        b.boolean(false), b.ints({0, 0}), b.integer(std::int64_t{1} << 62), out});
  b.output(out);
  EXPECT_EQ(error_of(b),
            "aten.convolution.default: groups is 4611686018427387904, which does not divide the input's 0 channels");
}

}  // namespace
}  // namespace nibble
