// Integers that the host works out, and shapes that only data tells.
#include "support/planning.hpp"

namespace nibble {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

TEST(SymInts, flow_from_sizes_and_data_to_shapes) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {6, 4}));
  const auto position = b.input(b.tensor(DType::i32, {1}));
  const auto n = b.symint();
  const auto p = b.symint();
  const auto n2 = b.symint();
  b.op("sym_size.int", {x, b.integer(0), n});
  b.op("et_vk.select_as_symint.default", {position, b.integer(0), b.integer(-1), p});
  b.op("mul", {n, b.integer(2), n2});
  const auto out = b.tensor(DType::f32, {12, 2});
  b.op("aten.view_copy.default", {x, b.list({n2, b.integer(2)}), out});
  b.output(out);
  b.output(p);
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE((*plan)->layout().inputs[1].host_read);
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.set_shape(0, {3, 4}));
  const std::int32_t data[] = {41};
  stepper.set_host_data(1, data);
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.output_shape(0), (Shape{6, 2}));
  EXPECT_EQ(stepper.output_int(1), 41);
}

TEST(SymInts, a_size_that_only_the_data_tells_has_room_for_its_dispatch) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {6, 4}));
  const auto n = b.input(b.symint());
  const auto head = b.tensor(DType::f32, {6, 4});
  b.op("aten.slice_copy.Tensor", {x, b.integer(0), b.integer(0), n, b.integer(1), head});
  b.output(head);
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ((*plan)->layout().max_dispatches, 1U);
  Stepper stepper(*plan);
  for (const std::int64_t count : {3, 6, 0, 1}) {
    ASSERT_TRUE(stepper.set_int(1, count));
    const auto status = stepper.update();
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(stepper.output_shape(0), (Shape{count, 4}));
  }
}

TEST(SymInts, what_fits_for_every_size_need_not_fit_for_the_largest_of_each) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {6, 4}));
  const auto n = b.input(b.symint());
  const auto head = b.tensor(DType::f32, {6, 4});
  const auto tail = b.tensor(DType::f32, {6, 4});
  const auto both = b.tensor(DType::f32, {6, 4});
  b.op("aten.slice_copy.Tensor", {x, b.integer(0), b.integer(0), n, b.integer(1), head});
  b.op("aten.slice_copy.Tensor", {x, b.integer(0), n, b.null(), b.integer(1), tail});
  b.op("aten.cat.default", {b.list({tail, head}), b.integer(0), both});
  b.output(both);
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  for (const std::int64_t count : {3, 6, 0, 1}) {
    ASSERT_TRUE(stepper.set_int(1, count));
    const auto status = stepper.update();
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(stepper.output_shape(0), (Shape{6, 4}));
  }
}

TEST(SymInts, sizes_below_zero_or_above_the_bound_are_refused) {
  GraphBuilder b;
  const auto n = b.input(b.symint());
  const auto out = b.tensor(DType::f32, {4, 6});
  b.op("aten.full.default", {b.list({n, b.integer(6)}), b.number(1), b.null(), b.null(), b.null(), b.null(), out});
  b.output(out);
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  for (const std::int64_t size : {-1, 5}) {
    ASSERT_TRUE(stepper.set_int(0, size));
    const auto status = stepper.update();
    ASSERT_FALSE(status);
    EXPECT_TRUE(status.error().message.contains(std::to_string(size))) << status.error().message;
  }
  ASSERT_TRUE(stepper.set_int(0, 4));
  EXPECT_TRUE(stepper.update());
}

TEST(SymInts, what_the_device_cannot_do_is_told_at_load) {
  GraphBuilder b;
  const auto table = b.constant(DType::f32, {64, 16});
  const auto n = b.input(b.symint());
  const auto out = b.tensor(DType::f32, {64, 16});
  b.op("aten.slice_copy.Tensor", {table, b.integer(0), b.integer(0), n, b.integer(1), out});
  b.output(out);
  Options options;
  options.max_shard_bytes = 1024;
  const auto plan = Plan::make(b.graph, {}, options, ops::registry());
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message,
            "aten.slice_copy.Tensor: self takes 4096 bytes, more than one binding on this device shows");
}

TEST(SymInts, may_not_decide_what_is_planned) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {6, 4}));
  const auto n = b.input(b.symint());
  const auto turned = b.tensor(DType::f32, {4, 6});
  b.op("aten.permute_copy.default", {x, b.list({n, b.integer(0)}), turned});
  b.output(turned);
  EXPECT_EQ(error_of(b), "aten.permute_copy.default: dims must hold integers that the program fixes, not SymInts");
  b.graph.nodes[0] = {"aten.transpose_copy.int", {x, n, b.integer(0), turned}};
  EXPECT_EQ(error_of(b), "aten.transpose_copy.int: dim0 must be an integer that the program fixes, but it is SymInt");
}

TEST(SymInts, floordiv_rounds_down_and_refuses_zero) {
  GraphBuilder b;
  const auto x = b.input(b.symint());
  const auto y = b.input(b.symint());
  const auto out = b.symint();
  b.op("floordiv", {x, y, out});
  b.output(out);
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  const auto run = [&](std::int64_t a, std::int64_t c) -> Result<std::int64_t> {
    TRY(stepper.set_int(0, a));
    TRY(stepper.set_int(1, c));
    TRY(stepper.update());
    return stepper.output_int(0);
  };
  EXPECT_EQ(*run(7, 2), 3);
  EXPECT_EQ(*run(-7, 2), -4);
  EXPECT_EQ(*run(7, -2), -4);
  EXPECT_EQ(*run(-8, 2), -4);
  EXPECT_FALSE(run(1, 0));
  EXPECT_FALSE(run(std::numeric_limits<std::int64_t>::min(), -1));
  EXPECT_EQ(*run(9, 4), 2) << "a failed call does not spoil the next";
}

}  // namespace
}  // namespace nibble
