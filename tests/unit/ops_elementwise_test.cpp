// Elementwise ops with no GPU: shapes, dispatches, the sentences of errors.
#include <gtest/gtest.h>

#include <set>

#include "ops/elementwise/strides.hpp"
#include "ops/registry.hpp"
#include "support/planning.hpp"

namespace nibble {
namespace {

using test::GraphBuilder;

/// One node on tensors, all of which are inputs; `others` come after them.
struct OneOp {
  GraphBuilder b;
  std::vector<ValueId> args;

  OneOp& in(DType dtype, Shape shape) {
    args.push_back(b.input(b.tensor(dtype, shape)));
    return *this;
  }
  OneOp& with(Value v) {
    args.push_back(b.value(std::move(v)));
    return *this;
  }
  Result<std::shared_ptr<const Plan>> make(std::string name, DType dtype, Shape shape) {
    const auto out = b.tensor(dtype, shape);
    args.push_back(out);
    b.op(std::move(name), args);
    b.output(out);
    return test::make(b);
  }
  std::string error(std::string name, DType dtype, Shape shape) {
    const auto plan = make(std::move(name), dtype, shape);
    return plan ? "" : plan.error().message;
  }
};

constexpr auto F32 = DType::f32;
constexpr auto F16 = DType::f16;
constexpr auto I32 = DType::i32;
constexpr auto BOOL = DType::boolean;

TEST(Elementwise, one_dispatch_with_the_shape_of_self) {
  for (const auto* name : {"abs", "neg", "exp", "sqrt", "rsqrt", "log10", "sin", "cos", "tan", "round", "relu", "relu6",
                           "sigmoid", "tanh", "hardsigmoid", "hardswish"}) {
    for (const auto dtype : {F32, F16}) {
      const auto plan = OneOp{}.in(dtype, {2, 3, 5}).make(fmt::format("aten.{}.default", name), dtype, {2, 3, 5});
      ASSERT_TRUE(plan) << plan.error().message;
      Stepper stepper(*plan);
      ASSERT_TRUE(stepper.set_shape(0, {2, 1, 5}));
      ASSERT_TRUE(stepper.update());
      EXPECT_EQ(stepper.dispatches().size(), 1U) << name;
      EXPECT_EQ(stepper.output_shape(0), (Shape{2, 1, 5})) << name;
      ASSERT_TRUE(stepper.set_shape(0, {2, 0, 5}));
      ASSERT_TRUE(stepper.update());
      EXPECT_EQ(stepper.dispatches().size(), 0U) << name;
      EXPECT_EQ(stepper.output_shape(0), (Shape{2, 0, 5})) << name;
    }
  }
}

TEST(Elementwise, integers_stay_integers_only_where_torch_has_it_so) {
  EXPECT_EQ(OneOp{}.in(I32, {3}).error("aten.neg.default", I32, {3}), "");
  EXPECT_EQ(OneOp{}.in(I32, {3}).error("aten.exp.default", F32, {3}), "");
  EXPECT_EQ(OneOp{}.in(I32, {3}).error("aten.exp.default", I32, {3}),
            "aten.exp.default: self is int32, but the output is int32");
  EXPECT_EQ(OneOp{}.in(F32, {3}).error("aten.neg.default", I32, {3}),
            "aten.neg.default: self is float32, but the output is int32");
  EXPECT_EQ(OneOp{}.in(DType::u8, {3}).error("aten.neg.default", DType::u8, {3}), "");
  EXPECT_EQ(OneOp{}.in(I32, {3}).error("aten.neg.default", DType::i8, {3}),
            "aten.neg.default: self is int32, but the output is int8");
  EXPECT_EQ(OneOp{}.in(DType::u8, {3}).error("aten.exp.default", DType::u8, {3}),
            "aten.exp.default: self is uint8, but the output is uint8");
  EXPECT_EQ(OneOp{}.in(I32, {3}).in(F32, {3}).error("aten.maximum.default", I32, {3}),
            "aten.maximum.default: self is int32 and another is float32, but the output is int32");
  EXPECT_EQ(OneOp{}.in(I32, {3}).in(BOOL, {3}).error("aten.bitwise_and.Tensor", I32, {3}), "");
  EXPECT_EQ(OneOp{}.in(I32, {3}).in(BOOL, {3}).error("aten.bitwise_and.Tensor", BOOL, {3}),
            "aten.bitwise_and.Tensor: self is int32 and another is bool, but the output is bool");
  EXPECT_EQ(OneOp{}.in(F32, {3}).error("aten.bitwise_not.default", F32, {3}),
            "aten.bitwise_not.default: self is float32, but the output is float32");
  EXPECT_EQ(OneOp{}.in(F32, {3}).in(F32, {3}).error("aten.lt.Tensor", F32, {3}),
            "aten.lt.Tensor: the output must be bool, but it is float32");
}

TEST(Elementwise, names_bad_arguments) {
  EXPECT_EQ(OneOp{}.in(F32, {3}).with(std::string("erf")).error("aten.gelu.default", F32, {3}),
            "aten.gelu.default: approximate must be none or tanh, but it is erf");
  EXPECT_EQ(OneOp{}.in(F32, {3}).in(F32, {3}).with(std::string("ceil")).error("aten.div.Tensor_mode", F32, {3}),
            "aten.div.Tensor_mode: rounding_mode must be floor or trunc, but it is ceil");
  EXPECT_EQ(OneOp{}.in(I32, {3}).with(std::int64_t{-2}).error("aten.pow.Tensor_Scalar", I32, {3}),
            "aten.pow.Tensor_Scalar: exponent must be a whole number of at least 0 for integers, but it is -2");
  EXPECT_EQ(OneOp{}.in(I32, {3}).with(std::int64_t{1} << 40).error("aten.eq.Scalar", BOOL, {3}), "");
  EXPECT_EQ(OneOp{}.in(I32, {3}).with(0.5).error("aten.gt.Scalar", BOOL, {3}), "");
  EXPECT_EQ(OneOp{}.in(F32, {3}).in(F32, {4}).error("aten.minimum.default", F32, {4}),
            "aten.minimum.default: shapes [3] and [4] do not broadcast");
}

TEST(Where, broadcasts_all_three) {
  const auto plan = OneOp{}.in(BOOL, {4, 1}).in(F32, {3, 1, 1}).in(F32, {5}).make("aten.where.self", F32, {3, 4, 5});
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.output_shape(0), (Shape{3, 4, 5}));
  EXPECT_EQ(stepper.dispatches().size(), 1U);
  EXPECT_EQ(OneOp{}.in(BOOL, {2}).in(F32, {3}).in(F32, {1}).error("aten.where.self", F32, {3}),
            "aten.where.self: shapes [2], [3] and [1] do not broadcast");
  EXPECT_EQ(OneOp{}.in(I32, {3}).in(F32, {3}).in(F32, {3}).error("aten.where.self", F32, {3}),
            "aten.where.self: condition must be bool, but it is int32");
}

OneOp full(IntList size, Value value) {
  OneOp one;
  one.with(std::move(size)).with(std::move(value));
  for (int i = 0; i < 4; ++i) one.with(Null{});
  return one;
}

TEST(Fill, names_bad_sizes_and_numbers) {
  EXPECT_EQ(full({2, 3}, 1.5).error("aten.full.default", F32, {2, 3}), "");
  EXPECT_EQ(full({2, -3}, 1.5).error("aten.full.default", F32, {2, 3}),
            "aten.full.default: size[1] is -3, but it must not be negative");
  EXPECT_EQ(full({1, 1, 1, 1, 1, 1, 1, 1, 1}, 1.5).error("aten.full.default", F32, {1}),
            "aten.full.default: size has 9 entries, more than 8");
  EXPECT_EQ(full({3}, 3e9).error("aten.full.default", I32, {3}), "aten.full.default: cannot make int32 of 3000000000");
  EXPECT_EQ(full({3}, std::int64_t{255}).error("aten.full.default", DType::u8, {3}), "");
  EXPECT_EQ(full({3}, std::int64_t{-1}).error("aten.full.default", DType::u8, {3}),
            "aten.full.default: cannot make uint8 of -1");
  EXPECT_EQ(full({3}, std::int64_t{128}).error("aten.full.default", DType::i8, {3}),
            "aten.full.default: cannot make int8 of 128");
}

OneOp arange(double start, double end, double step) {
  OneOp one;
  one.with(start).with(end).with(step);
  for (int i = 0; i < 4; ++i) one.with(Null{});
  return one;
}

TEST(Arange, names_steps_that_never_arrive) {
  EXPECT_EQ(arange(0, 5, 1).error("aten.arange.start_step", I32, {5}), "");
  EXPECT_EQ(arange(5, 0, -2).error("aten.arange.start_step", F32, {3}), "");
  EXPECT_EQ(arange(0, 5, 0).error("aten.arange.start_step", F32, {5}),
            "aten.arange.start_step: cannot go from 0 to 5 in steps of 0");
  EXPECT_EQ(arange(0, 5, -1).error("aten.arange.start_step", F32, {5}),
            "aten.arange.start_step: cannot go from 0 to 5 in steps of -1");
  EXPECT_EQ(arange(0, 5, 0.5).error("aten.arange.start_step", I32, {10}),
            "aten.arange.start_step: the output is int32, but start is 0 and step is 0.5");
}

TEST(Broadcast, takes_whole_quads_where_rows_are_made_of_them) {
  const auto chosen = [](Shape a, Shape b) -> std::string_view {
    OneOp one;
    one.in(F32, a).in(F32, b);
    Shape out;
    EXPECT_TRUE(ops::broadcast(a, b, out));
    const auto plan = one.make("aten.minimum.default", F32, out);
    EXPECT_TRUE(plan) << plan.error().message;
    Stepper stepper(*plan);
    EXPECT_TRUE(stepper.update());
    const auto& [choice, variant, facts, first] = stepper.choices(0)[0];
    return choice->variants[variant].name;
  };
  EXPECT_EQ(chosen({3, 8}, {3, 8}), "same");
  EXPECT_EQ(chosen({3, 8}, {1, 1}), "same") << "one element for all is known by its bound";
  EXPECT_EQ(chosen({3, 8}, {8}), "quads");
  EXPECT_EQ(chosen({3, 1}, {3, 8}), "quads");
  EXPECT_EQ(chosen({3, 1}, {3, 6}), "elements");
  EXPECT_EQ(chosen({6}, {3, 6}), "elements");
  EXPECT_EQ(chosen({2, 2}, {3, 2, 2}), "quads") << "two dimensions that are one run of four";
}

TEST(Broadcast, of_largest_shapes_that_agree_is_right_where_live_ones_do_not) {
  OneOp one;
  one.in(F32, {9, 8}).in(F32, {9, 8});
  const auto plan = one.make("aten.minimum.default", F32, {9, 8});
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.set_shape(0, {1, 8}));
  const auto status = stepper.update();
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(stepper.output_shape(0), (Shape{9, 8}));
}

TEST(Broadcast, is_the_same_for_one_row_as_for_many) {
  OneOp one;
  one.in(F32, {9, 8}).in(F32, {8});
  const auto plan = one.make("aten.minimum.default", F32, {9, 8});
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  for (const std::int64_t rows : {9, 1, 4}) {
    ASSERT_TRUE(stepper.set_shape(0, {rows, 8}));
    ASSERT_TRUE(stepper.update());
    EXPECT_EQ(stepper.dispatches()[0]->pipeline, 0U);
  }
}

}  // namespace
}  // namespace nibble
