// A plan as text and numbers.
#include "plan/print.hpp"

#include <gtest/gtest.h>

#include "ops/registry.hpp"
#include "support/graph_builder.hpp"

namespace nibble {
namespace {

using test::GraphBuilder;

std::shared_ptr<const Plan> printed_plan(const GraphBuilder& b, Options options = {}) {
  auto plan = Plan::make(b.graph, {}, options, ops::registry());
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? *plan : nullptr;
}

/// ids [2, 3] -> rows of a 100 x 64 table.
GraphBuilder embedding() {
  GraphBuilder b;
  const auto weight = b.constant(DType::u8, {100, 32});
  const auto scales = b.constant(DType::f32, {100, 2});
  const auto ids = b.input(b.tensor(DType::i32, {2, 3}));
  b.output(b.embedding_q4(weight, scales, 32, ids));
  return b;
}

TEST(Print, bytes_have_a_unit_that_fits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes(131334144), "125.2 MiB");
  EXPECT_EQ(format_bytes(~0ULL), "16.0 EiB");
}

TEST(Print, a_dispatch_names_its_op_grid_and_buffers) {
  const auto plan = printed_plan(embedding());
  ASSERT_NE(plan, nullptr);
  Stepper stepper(plan);
  ASSERT_TRUE(stepper.update());
  const auto dispatches = describe_dispatches(stepper);
  ASSERT_EQ(dispatches.size(), 1U);
  const auto& d = dispatches.front();
  EXPECT_EQ(d.op, "et_vk.embedding_q4gsw.default");
  EXPECT_EQ(d.kernel, "embedding_q4gsw");
  EXPECT_GT(d.workgroup, 0U);
  EXPECT_EQ(d.grid[1], 1U);
  // Weight, scales, ids and rows, in the order of the kernel's bindings.
  ASSERT_GE(d.bindings.size(), 4U);
  EXPECT_EQ(d.bindings[0].role, BufferRole::constant);
  EXPECT_EQ(d.bindings[0].bytes, 3200U);

  const std::string text = print_dispatches(dispatches);
  EXPECT_TRUE(
      text.starts_with("dispatch 0: et_vk.embedding_q4gsw.default (node 0)\n"
                       "  kernel embedding_q4gsw, grid "))
      << text;
  EXPECT_NE(text.find("\n  binding 1: reads constant 0, 3.1 KiB\n"), std::string::npos) << text;
  EXPECT_NE(text.find(": writes slot "), std::string::npos) << text;
}

TEST(Print, pieces_of_a_dispatch_are_one_paragraph) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {1000}));
  b.output(b.add(b.add(x, x, {1000}), x, {1000}));
  const auto plan = printed_plan(b, {.without_passes = {"elementwise_chains"}, .max_batch_work = 1});
  ASSERT_NE(plan, nullptr);
  Stepper stepper(plan);
  ASSERT_TRUE(stepper.update());
  const auto dispatches = describe_dispatches(stepper);
  ASSERT_EQ(dispatches.size(), 8U);
  EXPECT_EQ(dispatches[0].first_group, 0U);
  EXPECT_EQ(dispatches[3].first_group, 3U);
  EXPECT_EQ(dispatches[4].first_group, 0U);
  const std::string text = print_dispatches(dispatches);
  EXPECT_NE(text.find("(node 0)\n  in 4 pieces, to dispatch 3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("(node 1)\n  in 4 pieces, to dispatch 7\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("dispatch 1:"), std::string::npos) << text;
}

TEST(Print, live_shapes_change_the_grid) {
  const auto plan = printed_plan(embedding());
  ASSERT_NE(plan, nullptr);
  Stepper stepper(plan);
  ASSERT_TRUE(stepper.set_shape(0, {0, 3}));
  ASSERT_TRUE(stepper.update());
  EXPECT_TRUE(describe_dispatches(stepper).empty());
  EXPECT_EQ(print_dispatches({}), "");
}

TEST(Print, every_shard_is_a_dispatch) {
  const auto plan = printed_plan(embedding(), {.max_shard_bytes = 1600});
  ASSERT_NE(plan, nullptr);
  Stepper stepper(plan);
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(describe_dispatches(stepper).size(), 2U);
}

TEST(Print, memory_is_counted_by_use) {
  const auto plan = printed_plan(embedding());
  ASSERT_NE(plan, nullptr);
  const MemoryUse use = measure_memory(*plan);
  EXPECT_EQ(use.constants, 3200U + 800U);
  EXPECT_EQ(use.states, 0U);
  EXPECT_EQ(use.slots, 32U + 2 * 3 * 64 * 4);
  EXPECT_EQ(use.slots_unshared, use.slots);
  EXPECT_EQ(use.staging, plan->layout().staging_bytes);
}

TEST(Print, memory_without_sharing_counts_every_tensor) {
  GraphBuilder b;
  auto x = b.input(b.tensor(DType::f32, {64}));
  for (int i = 0; i < 4; ++i) x = b.add(x, x, {64});
  b.output(x);
  const auto plan = printed_plan(b, {.without_passes = {"elementwise_chains"}});
  ASSERT_NE(plan, nullptr);
  const MemoryUse use = measure_memory(*plan);
  EXPECT_EQ(use.slots_unshared, 5U * 256);
  EXPECT_LT(use.slots, use.slots_unshared);
}

TEST(Print, state_is_counted_apart_from_constants) {
  GraphBuilder b;
  const auto state = b.constant(DType::f32, {64});
  const auto x = b.input(b.tensor(DType::f32, {64}));
  b.op("aten.add.Tensor", {state, x, b.integer(1), state});
  b.output(state);
  const auto plan = printed_plan(b);
  ASSERT_NE(plan, nullptr);
  const MemoryUse use = measure_memory(*plan);
  EXPECT_EQ(use.states, 256U);
  EXPECT_EQ(use.constants, 0U);
  EXPECT_GE(use.slots_unshared, use.slots);
}

}  // namespace
}  // namespace nibble
