// Quantized ops, 8-bit products and training, planned with no GPU: shapes, dispatches, sentences.
#include <gtest/gtest.h>

#include "support/expect.hpp"
#include "support/planning.hpp"

namespace nibble {
namespace {

using test::error_of;
using test::GraphBuilder;
using test::make;
using test::succeeds;

auto plan_for(const GraphBuilder& b, AdapterKind kind) {
  DeviceProfile profile;
  profile.kind = kind;
  profile.packed_dot = true;
  return make(b, profile);
}

constexpr std::array kKinds{AdapterKind::cpu, AdapterKind::discrete};

/// An op of one tensor and of numbers, whose output has the same shape.
GraphBuilder quantized(std::string name, DType from, DType to, const Shape& shape, std::vector<Value> arguments) {
  GraphBuilder b;
  std::vector<ValueId> args{b.input(b.tensor(from, shape))};
  for (auto& argument : arguments) args.push_back(b.value(std::move(argument)));
  args.push_back(b.tensor(to, shape));
  b.output(args.back());
  b.op(std::move(name), args);
  return b;
}

std::int64_t whole(std::int64_t v) { return v; }

TEST(Quantize, names_wrong_arguments) {
  const auto error = [](DType from, DType to, std::int64_t low, std::int64_t high) {
    return error_of(quantized("quantized_decomposed.quantize_per_tensor.default", from, to, {3, 5},
                              {0.5, whole(0), low, high, Null{}}));
  };
  EXPECT_EQ(error(DType::f32, DType::i8, -128, 127), "");
  EXPECT_EQ(error(DType::f16, DType::u8, 0, 255), "");
  EXPECT_MENTIONS(error(DType::f32, DType::i8, -129, 127),
                  "quant_min and quant_max are -129 and 127, but int8 is from -128 to 127");
  EXPECT_MENTIONS(error(DType::f32, DType::u8, -1, 7), "uint8 is from 0 to 255");
  EXPECT_MENTIONS(error(DType::f32, DType::i8, 3, 2), "quant_min and quant_max are 3 and 2");
  EXPECT_MENTIONS(error(DType::i8, DType::i8, 0, 1), "cannot make int8 of int8");
  EXPECT_MENTIONS(error(DType::f32, DType::boolean, 0, 1), "integers must be int8, uint8 or int32, but they are bool");
}

GraphBuilder in_blocks(const Shape& shape, IntList block, const Shape& scale) {
  GraphBuilder b;
  const auto out = b.tensor(DType::i8, shape);
  b.op("torchao.quantize_affine.default", {b.input(b.tensor(DType::f32, shape)), b.ints(std::move(block)),
                                           b.constant(DType::f32, scale), b.null(), b.null(), b.null(), b.null(), out});
  b.output(out);
  return b;
}

TEST(Quantize, checks_blocks) {
  EXPECT_EQ(error_of(in_blocks({6, 8}, {3, 2}, {2, 4})), "");
  EXPECT_EQ(error_of(in_blocks({6, 8}, {3, 2}, {8})), "");
  EXPECT_MENTIONS(error_of(in_blocks({6, 8}, {4, 2}, {2, 4})), "block_size[0] is 4, which does not divide the size 6");
  EXPECT_MENTIONS(error_of(in_blocks({6, 8}, {3}, {2})), "block_size has 1 items, but input has 2 dimensions");
  EXPECT_MENTIONS(error_of(in_blocks({6, 8}, {3, 2}, {2, 3})),
                  "scale has shape [2, 3], but input of shape [6, 8] has 8 groups");
}

GraphBuilder qparams(const Shape& shape, IntList block, const Shape& results, std::string mapping = "SYMMETRIC") {
  GraphBuilder b;
  const auto scale = b.tensor(DType::f32, results);
  const auto zero = b.tensor(DType::i8, results);
  b.op("torchao.choose_qparams_affine.default",
       {b.input(b.tensor(DType::f32, shape)), b.value(std::move(mapping)), b.ints(std::move(block)), b.null(),
        b.integer(-128), b.integer(127), b.null(), b.null(), b.null(), b.boolean(true), b.list({scale, zero})});
  b.output(scale);
  b.output(zero);
  return b;
}

TEST(Qparams, are_chosen_for_blocks_of_any_form) {
  for (const auto kind : kKinds) {
    EXPECT_TRUE(succeeds(plan_for(qparams({6, 8}, {3, 2}, {2, 4}), kind)));
    EXPECT_TRUE(succeeds(plan_for(qparams({5, 8}, {1, 8}, {5, 1}), kind)));
    // A line that one workgroup may not fold alone.
    const auto plan = plan_for(qparams({4000001}, {4000001}, {1}), kind);
    ASSERT_TRUE(succeeds(plan));
    Stepper stepper(*plan);
    ASSERT_TRUE(stepper.update());
    EXPECT_EQ(stepper.dispatches().size(), 2U);
  }
  EXPECT_MENTIONS(error_of(qparams({5, 8}, {1, 8}, {5, 1}, "ODD")), "mapping_type is ODD");
}

TEST(Qparams, have_results_that_nobody_reads) {
  auto b = qparams({6, 8}, {3, 2}, {2, 4});
  b.graph.outputs.pop_back();
  EXPECT_EQ(error_of(b), "");
  b = qparams({6, 8}, {1, 8}, {6, 1});
  b.graph.outputs.erase(b.graph.outputs.begin());
  EXPECT_EQ(error_of(b), "");
}

GraphBuilder q8_linear(const Shape& x, std::int64_t columns, std::string activation = "none", DType dtype = DType::i8) {
  GraphBuilder b;
  const auto depth = x[x.rank() - 1];
  Shape shape = x;
  shape[shape.rank() - 1] = columns;
  const auto out = b.tensor(DType::i8, shape);
  b.op(
      "et_vk.q8ta_linear.default",
      {b.input(b.tensor(dtype, x)), b.number(0.5), b.integer(3), b.constant(DType::i8, {columns, depth}), b.null(),
       b.constant(DType::f32, {columns}), b.number(0.25), b.integer(0), b.null(), b.value(std::move(activation)), out});
  b.output(out);
  return b;
}

TEST(LinearQ8, has_a_second_dispatch_where_rows_share_words) {
  for (const auto kind : kKinds) {
    for (const auto& [columns, dispatches] : {std::pair{8, 1U}, {7, 2U}}) {
      const auto plan = plan_for(q8_linear({9, 20}, columns), kind);
      ASSERT_TRUE(succeeds(plan));
      Stepper stepper(*plan);
      for (const std::int64_t rows : {9, 1, 0, 4}) {
        ASSERT_TRUE(stepper.set_shape(0, {rows, 20}));
        ASSERT_TRUE(succeeds(stepper.update()));
        EXPECT_EQ(stepper.output_shape(0), (Shape{rows, columns}));
        EXPECT_EQ(stepper.dispatches().size(), rows == 0 ? 0 : dispatches);
      }
    }
  }
}

TEST(LinearQ8, multiplies_packed_bytes_on_a_gpu_that_can) {
  const auto text = [](AdapterKind kind, bool packed_dot) {
    DeviceProfile profile;
    profile.kind = kind;
    profile.packed_dot = packed_dot;
    const auto plan = make(q8_linear({9, 32}, 8), profile);
    EXPECT_TRUE(plan) << plan.error().message;
    std::string all;
    for (const auto& one : (*plan)->layout().pipelines) all += one.wgsl;
    return all;
  };
  EXPECT_NE(text(AdapterKind::discrete, true).find("dot4I8Packed"), std::string::npos);
  EXPECT_EQ(text(AdapterKind::discrete, false).find("dot4I8Packed"), std::string::npos);
  EXPECT_EQ(text(AdapterKind::cpu, true).find("dot4I8Packed"), std::string::npos);
}

TEST(LinearQ8, names_wrong_arguments) {
  EXPECT_MENTIONS(error_of(q8_linear({9, 20}, 8, "gelu")), "activation must be none or relu, but it is gelu");
  EXPECT_MENTIONS(error_of(q8_linear({9, 20}, 8, "none", DType::f32)),
                  "x and the output must be int8, but they are float32 and int8");
  auto b = q8_linear({9, 20}, 8);
  b.graph.tensor(b.graph.nodes[0].args[3])->shape = {8, 19};
  EXPECT_MENTIONS(error_of(b), "weights must be int8 of shape [columns, 20 or more], but it is int8 [8, 19]");
  b = q8_linear({9, 20}, 8);
  b.graph.tensor(b.graph.nodes[0].args[5])->shape = {7};
  EXPECT_MENTIONS(error_of(b), "weight_scales has shape [7], but weights has 8 rows");
}

TEST(Training, names_wrong_arguments) {
  GraphBuilder b;
  const auto loss = b.tensor(DType::f32, {});
  const auto gradient = b.tensor(DType::f32, {4, 5});
  b.op("et_vk.fused_ce.default", {b.input(b.tensor(DType::f32, {4, 5})), b.input(b.tensor(DType::i32, {3})),
                                  b.number(4), b.list({loss, gradient})});
  b.output(loss);
  b.output(gradient);
  EXPECT_MENTIONS(error_of(b), "labels must be int32 with 4 elements, but it is int32 [3]");
  b.graph.tensor(b.graph.nodes[0].args[1])->shape = {4};
  EXPECT_EQ(error_of(b), "");
  b.graph.outputs.pop_back();
  EXPECT_EQ(error_of(b), "") << "nobody reads the gradient";
}

}  // namespace
}  // namespace nibble
