// Ops along rows, with no GPU: shapes, dispatches, errors.
#include <gtest/gtest.h>

#include "support/planning.hpp"

namespace nibble {
namespace {

using test::GraphBuilder;

DeviceProfile profile_of(AdapterKind kind) {
  DeviceProfile profile;
  profile.kind = kind;
  return profile;
}

Result<std::shared_ptr<const Plan>> make(GraphBuilder& b, AdapterKind kind = AdapterKind::discrete) {
  return test::make(b, profile_of(kind));
}

std::string error_of(GraphBuilder& b) {
  auto plan = make(b);
  return plan ? "" : plan.error().message;
}

/// The dispatches of a call at the largest shapes, or at `live`.
std::vector<const Dispatch*> dispatches(GraphBuilder& b, AdapterKind kind, std::optional<Shape> live = {}) {
  const auto plan = make(b, kind);
  EXPECT_TRUE(plan) << plan.error().message;
  static std::vector<std::unique_ptr<Stepper>> steppers;
  auto& stepper = *steppers.emplace_back(std::make_unique<Stepper>(*plan));
  if (live) {
    EXPECT_TRUE(stepper.set_shape(0, *live));
  }
  EXPECT_TRUE(stepper.update());
  const auto all = stepper.dispatches();
  return {all.begin(), all.end()};
}

GraphBuilder softmax(Shape shape, std::int64_t dim, DType dtype = DType::f32) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(dtype, shape));
  const auto out = b.tensor(dtype, shape);
  b.op("aten._softmax.default", {x, b.integer(dim), b.boolean(false), out});
  b.output(out);
  return b;
}

GraphBuilder rms_norm(Shape shape, Shape weight) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, shape));
  const auto out = b.tensor(DType::f32, shape);
  b.op("et_vk.rms_norm.default", {x, b.constant(DType::f32, weight), b.number(1e-5), out});
  b.output(out);
  return b;
}

GraphBuilder layer_norm(Shape shape, IntList normalized, std::optional<Shape> weight, bool has_mean) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, shape));
  const auto out = b.tensor(DType::f32, shape);
  const auto w = weight ? b.constant(DType::f32, *weight) : b.null();
  Shape stat = shape;
  for (std::size_t i = 0; i < normalized.size(); ++i) stat[shape.rank() - 1 - i] = 1;
  const auto mean = has_mean ? b.tensor(DType::f32, stat) : b.null();
  b.op("aten.native_layer_norm.default",
       {x, b.ints(std::move(normalized)), w, b.null(), b.number(1e-5), b.list({out, mean, b.null()})});
  b.output(out);
  if (has_mean) b.output(mean);
  return b;
}

GraphBuilder reduction(const std::string& name, Shape shape, ValueId (*dims)(GraphBuilder&), Shape result,
                       DType out_type) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, shape));
  const auto out = b.tensor(out_type, result);
  b.op(name, {x, dims(b), b.boolean(false), out});
  b.output(out);
  return b;
}

GraphBuilder row_qparams(Shape shape, IntList block, Shape result, std::string mapping = "ASYMMETRIC",
                         std::int64_t most = 127) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, shape));
  const auto scale = b.tensor(DType::f32, result);
  const auto zero = b.tensor(DType::i8, result);
  b.op("torchao.choose_qparams_affine.default",
       {x, b.value(std::move(mapping)), b.ints(std::move(block)), b.null(), b.integer(-128), b.integer(most), b.null(),
        b.null(), b.null(), b.boolean(false), b.list({scale, zero})});
  b.output(scale);
  b.output(zero);
  return b;
}

TEST(Softmax, takes_one_dispatch_where_rows_are_whole_quads) {
  auto b = softmax({3, 64, 128}, -1);
  EXPECT_EQ(dispatches(b, AdapterKind::discrete).size(), 1U);
  EXPECT_EQ(dispatches(b, AdapterKind::cpu).size(), 1U);
}

TEST(Softmax, folds_first_where_they_are_not) {
  auto odd = softmax({30000, 127}, 1);
  EXPECT_EQ(dispatches(odd, AdapterKind::discrete).size(), 2U);
  EXPECT_EQ(dispatches(odd, AdapterKind::cpu).size(), 1U) << "a thread stores a whole row of float32";
  auto half = softmax({30000, 127}, 1, DType::f16);
  EXPECT_EQ(dispatches(half, AdapterKind::cpu).size(), 2U);
  auto strided = softmax({3, 64, 128}, 0);
  EXPECT_EQ(dispatches(strided, AdapterKind::discrete).size(), 2U);
}

TEST(Softmax, shares_a_long_row_among_many_threads) {
  auto b = softmax({1, 128256}, 1);
  for (auto kind : {AdapterKind::discrete, AdapterKind::cpu}) {
    const auto all = dispatches(b, kind);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_GE(all[0]->grid[0], 2U);
  }
}

TEST(Softmax, makes_nothing_of_nothing) {
  auto b = softmax({4, 128}, 1);
  EXPECT_TRUE(dispatches(b, AdapterKind::discrete, Shape{0, 128}).empty());
  EXPECT_EQ(dispatches(b, AdapterKind::discrete, Shape{4, 127}).size(), 2U);
}

TEST(Softmax, names_wrong_arguments) {
  auto dim = softmax({4, 8}, 2);
  EXPECT_EQ(error_of(dim), "aten._softmax.default: dim is 2, but the tensor has 2 dimensions");
  auto type = softmax({4, 8}, 1, DType::i32);
  EXPECT_EQ(error_of(type), "aten._softmax.default: self must be float32 or float16, but it is int32");
}

TEST(RmsNorm, takes_one_dispatch_at_decode) {
  for (std::int64_t width : {2048, 8192}) {
    auto b = rms_norm({1, 1, width}, {width});
    EXPECT_EQ(dispatches(b, AdapterKind::discrete).size(), 1U);
    EXPECT_EQ(dispatches(b, AdapterKind::cpu).size(), 1U);
  }
}

TEST(RmsNorm, takes_more_rows_than_a_grid_has_columns) {
  auto b = rms_norm({100000, 64}, {64});
  const auto all = dispatches(b, AdapterKind::discrete);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_GE(std::uint64_t{all[0]->grid[0]} * all[0]->grid[1], 100000U);
  EXPECT_LE(all[0]->grid[0], 65535U);
}

TEST(RmsNorm, names_a_weight_of_the_wrong_size) {
  auto b = rms_norm({4, 8}, {7});
  EXPECT_EQ(error_of(b), "et_vk.rms_norm.default: shapes [4, 8] and [7] do not broadcast");
}

TEST(RmsNorm, multiplies_afterwards_by_what_is_no_row) {
  const auto count = [](Shape weight) {
    auto b = rms_norm({3, 5, 8}, weight);
    return dispatches(b, AdapterKind::discrete).size();
  };
  EXPECT_EQ(count({8}), 1U);
  EXPECT_EQ(count({1, 1, 8}), 1U);
  EXPECT_EQ(count({3, 5, 8}), 2U);
  EXPECT_EQ(count({5, 1}), 2U);
  // One number is multiplied by in the norm's own kernel.
  EXPECT_EQ(count({1}), 1U);
  EXPECT_EQ(count({}), 1U);
}

TEST(Norms, have_working_memory_for_any_number_of_rows) {
  for (const auto kind : {AdapterKind::cpu, AdapterKind::discrete}) {
    for (const std::int64_t width : {7, 8, 90, 30001}) {
      for (auto b : {rms_norm({300, width}, {width}), layer_norm({300, width}, {width}, Shape{width}, false),
                     layer_norm({300, width}, {width}, {}, false)}) {
        const auto plan = make(b, kind);
        ASSERT_TRUE(plan) << plan.error().message;
        Stepper stepper(*plan);
        for (const std::int64_t rows : {300, 5, 64, 1, 63, 0, 299}) {
          ASSERT_TRUE(stepper.set_shape(0, {rows, width}));
          const auto status = stepper.update();
          ASSERT_TRUE(status) << status.error().message << ", " << rows << " rows of " << width;
          EXPECT_EQ(test::wrong_binding(stepper), "") << rows << " rows of " << width;
        }
      }
    }
  }
}

TEST(AddRmsNorm, takes_one_dispatch_and_names_shapes_that_differ) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {1, 2048}));
  const auto y = b.input(b.tensor(DType::f32, {1, 2048}));
  const auto sum = b.tensor(DType::f32, {1, 2048});
  const auto normed = b.tensor(DType::f32, {1, 2048});
  b.op("nibble.add_rms_norm", {x, y, b.constant(DType::f32, {2048}), b.number(1e-5), b.list({sum, normed})});
  b.output(sum);
  b.output(normed);
  EXPECT_EQ(dispatches(b, AdapterKind::cpu).size(), 1U);
  b.graph.tensor(y)->shape = {1, 2047};
  EXPECT_EQ(error_of(b), "nibble.add_rms_norm: a has shape [1, 2048], but b has [1, 2047]");
}

TEST(LayerNorm, keeps_statistics_only_where_they_are_wanted) {
  auto plain = layer_norm({6, 64}, {64}, Shape{64}, false);
  EXPECT_EQ(dispatches(plain, AdapterKind::discrete).size(), 1U);
  auto with_mean = layer_norm({6, 64}, {64}, Shape{64}, true);
  EXPECT_EQ(dispatches(with_mean, AdapterKind::discrete).size(), 3U);
}

TEST(LayerNorm, names_wrong_arguments) {
  auto shape = layer_norm({6, 64}, {63}, {}, false);
  EXPECT_EQ(error_of(shape), "aten.native_layer_norm.default: normalized_shape[0] is 63, but input has shape [6, 64]");
  auto rank = layer_norm({6, 64}, {}, {}, false);
  EXPECT_EQ(error_of(rank), "aten.native_layer_norm.default: normalized_shape has 0 dimensions, but input has 2");
  auto weight = layer_norm({6, 64}, {64}, Shape{32}, false);
  EXPECT_EQ(error_of(weight), "aten.native_layer_norm.default: weight has shape [32], but [64] is normalized");
}

TEST(Extremes, say_when_there_is_nothing_to_choose_from) {
  auto b = reduction("aten.amax.default", {4, 0}, [](GraphBuilder& g) { return g.ints({1}); }, {4}, DType::f32);
  EXPECT_EQ(error_of(b), "aten.amax.default: self has shape [4, 0]: no elements to choose from");
}

TEST(Extremes, give_places_as_int32) {
  auto b = reduction("aten.argmax.default", {4, 6}, [](GraphBuilder& g) { return g.null(); }, {}, DType::f32);
  EXPECT_EQ(error_of(b), "aten.argmax.default: out must be int32, but it is float32");
  b.graph.tensor(b.graph.outputs[0])->dtype = DType::i32;
  EXPECT_EQ(error_of(b), "");
}

TEST(ChooseQparams, takes_one_dispatch_of_four_rows_a_group) {
  auto b = row_qparams({1, 9, 64}, {1, 1, 64}, {1, 9});
  const auto all = dispatches(b, AdapterKind::discrete);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0]->grid[0], 3U);
}

TEST(ChooseQparams, names_wrong_arguments) {
  auto mapping = row_qparams({4, 8}, {1, 8}, {4}, "DIAGONAL");
  EXPECT_NE(error_of(mapping).find("torchao.choose_qparams_affine.default: mapping_type"), std::string::npos);
  auto range = row_qparams({4, 8}, {1, 8}, {4}, "ASYMMETRIC", -128);
  EXPECT_EQ(error_of(range),
            "torchao.choose_qparams_affine.default: quant_min is -128, which is not below quant_max, -128");
  auto wide = row_qparams({4, 8}, {1, 8}, {4}, "ASYMMETRIC", 255);
  EXPECT_EQ(
      error_of(wide),
      "torchao.choose_qparams_affine.default: quant_min and quant_max are -128 and 255, but int8 is from -128 to 127");
  auto part = row_qparams({4, 8}, {1, 3}, {4});
  EXPECT_EQ(error_of(part),
            "torchao.choose_qparams_affine.default: block_size[1] is 3, which does not divide the size 8");
  auto rank = row_qparams({4, 8}, {8}, {4});
  EXPECT_EQ(error_of(rank),
            "torchao.choose_qparams_affine.default: block_size has 1 items, but input has 2 dimensions");
}

}  // namespace
}  // namespace nibble
