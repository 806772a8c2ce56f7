// Ops on images, with no GPU: shapes, dispatches, errors.
#include <gtest/gtest.h>

#include "support/planning.hpp"

namespace nibble {
namespace {

using test::error_of;
using test::GraphBuilder;

/// What sliding windows are told, where a test says nothing else.
struct Slide {
  IntList kernel = {3, 3};
  IntList stride = {2, 2};
  IntList padding = {1, 1};
  IntList dilation = {1, 1};
  bool ceil_mode = false;
};

GraphBuilder avg_pool(Shape shape, Shape result, const Slide& s = {}, std::optional<std::int64_t> divisor = {}) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, shape));
  const auto out = b.tensor(DType::f32, result);
  b.op("aten.avg_pool2d.default", {x, b.ints(s.kernel), b.ints(s.stride), b.ints(s.padding), b.boolean(s.ceil_mode),
                                   b.boolean(true), divisor ? b.integer(*divisor) : b.null(), out});
  b.output(out);
  return b;
}

GraphBuilder max_pool(Shape shape, Shape result, const Slide& s, DType values, DType places) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, shape));
  const auto out = b.tensor(values, result);
  const auto where = b.tensor(places, result);
  b.op("aten.max_pool2d_with_indices.default", {x, b.ints(s.kernel), b.ints(s.stride), b.ints(s.padding),
                                                b.ints(s.dilation), b.boolean(s.ceil_mode), b.list({out, where})});
  b.output(out);
  b.output(where);
  return b;
}

GraphBuilder adaptive(Shape shape, IntList size, Shape result) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, shape));
  const auto out = b.tensor(DType::f32, result);
  b.op("aten._adaptive_avg_pool2d.default", {x, b.ints(std::move(size)), out});
  b.output(out);
  return b;
}

GraphBuilder upsample(Shape shape, Shape result, std::optional<IntList> size, std::optional<DoubleList> factors) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, shape));
  const auto out = b.tensor(DType::f32, result);
  b.op("aten.upsample_bilinear2d.vec",
       {x, size ? b.ints(*size) : b.null(), b.boolean(false), factors ? b.value(*factors) : b.null(), out});
  b.output(out);
  return b;
}

GraphBuilder grid_sample(Shape shape, Shape grid, std::int64_t mode, std::int64_t padding) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, shape));
  const auto g = b.input(b.tensor(DType::f32, grid));
  const auto out = b.tensor(DType::f32, {2, 3, 4, 5});
  b.op("aten.grid_sampler_2d.default", {x, g, b.integer(mode), b.integer(padding), b.boolean(false), out});
  b.output(out);
  return b;
}

GraphBuilder group_norm(Shape shape, Shape weight, std::int64_t group, bool has_statistics) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, shape));
  const auto out = b.tensor(DType::f32, shape);
  const auto mean = has_statistics ? b.tensor(DType::f32, {shape[0], group}) : b.null();
  b.op("aten.native_group_norm.default",
       {x, b.constant(DType::f32, weight), b.null(), b.integer(1), b.integer(1), b.integer(1), b.integer(group),
        b.number(1e-5), b.list({out, mean, b.null()})});
  b.output(out);
  if (has_statistics) b.output(mean);
  return b;
}

std::size_t count_dispatches(const GraphBuilder& b, std::optional<Shape> live = {}) {
  const auto plan = test::make(b);
  EXPECT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  if (live) {
    EXPECT_TRUE(stepper.set_shape(0, *live));
  }
  const auto status = stepper.update();
  EXPECT_TRUE(status) << status.error().message;
  return stepper.dispatches().size();
}

TEST(Pool, gives_as_many_windows_as_torch) {
  EXPECT_EQ(error_of(avg_pool({2, 3, 7, 8}, {2, 3, 4, 4})), "");
  EXPECT_EQ(error_of(avg_pool({3, 7, 8}, {3, 4, 5}, {.ceil_mode = true})), "");
  EXPECT_EQ(error_of(avg_pool({1, 1, 7, 8}, {1, 1, 2, 2}, {.stride = {}, .padding = {0}})), "");
  // The third window would begin in the padding behind the image.
  EXPECT_EQ(error_of(avg_pool({1, 1, 4, 4}, {1, 1, 2, 2}, {{2}, {3}, {1}, {1}, true})), "");
  EXPECT_EQ(error_of(max_pool({1, 1, 7, 7}, {1, 1, 3, 3}, {{3}, {2}, {1}, {2}}, DType::f32, DType::i32)), "");
}

TEST(Pool, takes_several_dispatches_only_for_huge_windows) {
  EXPECT_EQ(count_dispatches(avg_pool({1, 3, 224, 224}, {1, 3, 1, 1}, {{224}, {1}, {0}})), 1U);
  EXPECT_EQ(count_dispatches(avg_pool({1, 3, 400, 400}, {1, 3, 1, 1}, {{400}, {1}, {0}})), 3U);
  EXPECT_EQ(count_dispatches(avg_pool({2, 3, 7, 8}, {2, 3, 4, 4}), Shape{0, 3, 7, 8}), 0U);
}

TEST(Pool, takes_as_many_as_the_images_of_a_call_need) {
  const auto b = adaptive({1, 3, 400, 400}, {1, 1}, {1, 3, 1, 1});
  EXPECT_EQ(count_dispatches(b), 3U);
  EXPECT_EQ(count_dispatches(b, Shape{1, 3, 300, 300}), 2U);
  EXPECT_EQ(count_dispatches(b, Shape{1, 3, 7, 9}), 1U);
}

TEST(Pool, names_wrong_arguments) {
  const std::string avg = "aten.avg_pool2d.default: ";
  EXPECT_EQ(error_of(avg_pool({7, 8}, {4, 4})), avg + "self has shape [7, 8], but images have 3 or 4 dimensions");
  EXPECT_EQ(error_of(avg_pool({1, 2, 0, 8}, {1, 2, 1, 4})),
            avg + "self has shape [1, 2, 0, 8]: images without elements");
  EXPECT_EQ(error_of(avg_pool({1, 7, 8}, {1, 4, 4}, {.kernel = {3, 3, 3}})),
            avg + "kernel_size has 3 items, but images have 2 axes");
  EXPECT_EQ(error_of(avg_pool({1, 7, 8}, {1, 4, 4}, {.stride = {2, 0}})),
            avg + "stride is 0, but it must be from 1 to 536870912");
  EXPECT_EQ(error_of(avg_pool({1, 7, 8}, {1, 4, 4}, {.padding = {2}})),
            avg + "padding is 2, more than half of a window of 3");
  EXPECT_EQ(error_of(avg_pool({1, 7, 8}, {1, 4, 4}, {.kernel = {11}})),
            avg + "a window of 11 does not fit into 7 with a padding of 1");
  EXPECT_EQ(error_of(avg_pool({1, 7, 8}, {1, 4, 4}, {}, 0)), avg + "divisor_override is 0");
  EXPECT_EQ(error_of(avg_pool({1, 1, 1}, {1, 1, 1}, {{20000}, {1}, {10000}})),
            avg + "a window has 400000000 elements, more than 67108864");
  const std::string max = "aten.max_pool2d_with_indices.default: ";
  EXPECT_EQ(error_of(max_pool({1, 7, 8}, {1, 4, 4}, {}, DType::i32, DType::i32)),
            max + "out must hold values, float32 or float16, and indices, int32");
  EXPECT_EQ(error_of(max_pool({1, 7, 8}, {1, 4, 4}, {}, DType::f32, DType::f32)),
            max + "out must hold values, float32 or float16, and indices, int32");
  const std::string mean = "aten._adaptive_avg_pool2d.default: ";
  EXPECT_EQ(error_of(adaptive({1, 7, 8}, {2}, {1, 2, 2})), mean + "output_size has 1 items, but images have 2 axes");
  EXPECT_EQ(error_of(adaptive({1, 7, 8}, {-1, 2}, {1, 2, 2})),
            mean + "output_size[0] is -1, which 7 entries cannot be shared among");
}

TEST(Upsample, takes_a_size_or_factors) {
  EXPECT_EQ(error_of(upsample({1, 2, 5, 7}, {1, 2, 8, 9}, IntList{8, 9}, {})), "");
  EXPECT_EQ(error_of(upsample({1, 2, 5, 7}, {1, 2, 8, 14}, {}, DoubleList{1.6, 2})), "");
}

TEST(Upsample, names_wrong_arguments) {
  const std::string op = "aten.upsample_bilinear2d.vec: ";
  const Shape shape{1, 2, 5, 7};
  EXPECT_EQ(error_of(upsample(shape, shape, {}, {})),
            op + "either output_size or scale_factors must be given, but neither is");
  EXPECT_EQ(error_of(upsample(shape, shape, IntList{5, 7}, DoubleList{1, 1})),
            op + "either output_size or scale_factors must be given, but both are");
  EXPECT_EQ(error_of(upsample(shape, shape, {}, DoubleList{1})),
            op + "scale_factors has 1 items, but images have 2 axes");
  EXPECT_EQ(error_of(upsample(shape, shape, {}, DoubleList{1, 0.1})), op + "cannot make 0 rows or columns of 7");
  EXPECT_EQ(error_of(upsample(shape, shape, IntList{0, 7}, {})), op + "cannot make 0 rows or columns of 5");
  EXPECT_EQ(error_of(upsample({2, 5, 7}, shape, IntList{5, 7}, {})),
            op + "input has shape [2, 5, 7], but it must have 4 dimensions");
  EXPECT_EQ(error_of(upsample({1, 2, 5, 0}, shape, IntList{5, 7}, {})),
            op + "input has shape [1, 2, 5, 0]: images without elements");
  auto b = upsample(shape, shape, IntList{5, 7}, {});
  b.graph.nodes[0].args[3] = b.boolean(true);
  EXPECT_EQ(error_of(b), op + "scale_factors must be a list of numbers, but it is Bool");
}

TEST(GridSampler, names_wrong_arguments) {
  const std::string op = "aten.grid_sampler_2d.default: ";
  EXPECT_EQ(error_of(grid_sample({2, 3, 6, 7}, {2, 4, 5, 2}, 2, 2)), "");
  EXPECT_EQ(error_of(grid_sample({2, 3, 6, 7}, {2, 4, 5, 2}, 3, 0)),
            op + "interpolation_mode is 3, but there are 0 (bilinear), 1 (nearest) and 2 (bicubic)");
  EXPECT_EQ(error_of(grid_sample({2, 3, 6, 7}, {2, 4, 5, 2}, 0, -1)),
            op + "padding_mode is -1, but there are 0 (zeros), 1 (border) and 2 (reflection)");
  EXPECT_EQ(error_of(grid_sample({2, 3, 6, 7}, {1, 4, 5, 2}, 0, 0)),
            op + "grid has shape [1, 4, 5, 2], but 2 images need [2, height, width, 2]");
}

TEST(GridPriors, names_a_tensor_that_is_no_image) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {7}));
  const auto out = b.tensor(DType::f32, {7, 2});
  b.op("et_vk.grid_priors.default", {x, b.integer(8), b.number(0.5), out});
  b.output(out);
  EXPECT_EQ(error_of(b), "et_vk.grid_priors.default: self has shape [7], but images have a height and a width");
}

TEST(BatchNorm, takes_one_dispatch_and_names_what_has_other_channels) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 6, 5}));
  const auto out = b.tensor(DType::f32, {2, 6, 5});
  const auto mean = b.constant(DType::f32, {6});
  const auto empty = b.tensor(DType::f32, {0});
  b.op("aten._native_batch_norm_legit_no_training.default",
       {x, b.null(), b.null(), mean, mean, b.number(0.1), b.number(1e-5), b.list({out, empty, empty})});
  b.output(out);
  EXPECT_EQ(count_dispatches(b), 1U);
  b.graph.nodes[0].args[4] = b.constant(DType::f32, {5});
  EXPECT_EQ(error_of(b),
            "aten._native_batch_norm_legit_no_training.default: running_var has shape [5], but input has 6 channels");
}

TEST(GroupNorm, gives_statistics_only_where_they_are_wanted) {
  EXPECT_EQ(count_dispatches(group_norm({2, 6, 4, 4}, {6}, 3, false)), 2U);
  EXPECT_EQ(count_dispatches(group_norm({2, 6, 4, 4}, {6}, 3, true)), 3U);
  EXPECT_EQ(count_dispatches(group_norm({2, 6, 4, 4}, {6}, 3, true), Shape{0, 6, 4, 4}), 0U);
}

TEST(GroupNorm, names_wrong_arguments) {
  const std::string op = "aten.native_group_norm.default: ";
  EXPECT_EQ(error_of(group_norm({2, 6, 4}, {6}, 4, false)), op + "group is 4, which does not divide 6 channels");
  EXPECT_EQ(error_of(group_norm({2, 6, 4}, {6}, 0, false)), op + "group is 0, which does not divide 6 channels");
  EXPECT_EQ(error_of(group_norm({2, 6, 4}, {5}, 3, false)), op + "weight has shape [5], but input has 6 channels");
  EXPECT_EQ(error_of(group_norm({6}, {6}, 3, false)), op + "input has shape [6], but dimension 1 is normalized");
}

}  // namespace
}  // namespace nibble
