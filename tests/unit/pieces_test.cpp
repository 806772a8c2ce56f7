#include "plan/pieces.hpp"

#include <limits>
#include <random>

#include "plan/batches.hpp"
#include "support/planning.hpp"

namespace nibble {
namespace {

using namespace test;

constexpr auto kHuge = std::numeric_limits<std::uint64_t>::max();

std::uint64_t count_of(const Piece& piece) { return std::uint64_t{piece.grid[0]} * piece.grid[1] * piece.grid[2]; }

/// A dispatch of whole workgroups.
struct Whole {
  std::uint64_t groups = 1;
  std::uint64_t work = 1;
  std::uint32_t workgroup = 64;
  Limits limits{};

  Pieces cut(std::uint64_t most_work, std::uint32_t most = Pieces::kMost) const {
    const auto grid = grid_for(groups * workgroup, workgroup, limits);
    EXPECT_TRUE(grid) << grid.error().message;
    return {groups * workgroup, *grid, work, most_work, most, limits};
  }
};

TEST(Pieces, a_dispatch_with_little_work_is_one) {
  const auto pieces = Whole{.groups = 100'000, .work = 1000}.cut(1000);
  ASSERT_EQ(pieces.count(), 1U);
  EXPECT_EQ(pieces[0].first_group, 0U);
  EXPECT_EQ(pieces[0].grid, (std::array<std::uint32_t, 3>{50'000, 2, 1})) << "as it would be without pieces";
}

TEST(Pieces, have_as_much_work_as_they_may) {
  const auto pieces = Whole{.groups = 10, .work = 1000}.cut(400);
  ASSERT_EQ(pieces.count(), 3U);
  EXPECT_EQ(pieces[1].first_group, 4U);
  EXPECT_EQ(pieces[1].grid, (std::array<std::uint32_t, 3>{4, 1, 1}));
  EXPECT_EQ(pieces[1].work, 400U);
  EXPECT_EQ(pieces[2].grid, (std::array<std::uint32_t, 3>{2, 1, 1}));
  EXPECT_EQ(pieces[2].work, 200U);
}

TEST(Pieces, a_workgroup_is_not_cut) {
  EXPECT_EQ((Whole{.groups = 1, .work = 1000}.cut(1).count()), 1U);
  EXPECT_EQ((Whole{.groups = 7, .work = 1000}.cut(1).count()), 7U);
}

TEST(Pieces, are_not_too_many) {
  EXPECT_EQ((Whole{.groups = 1 << 20, .work = kHuge}.cut(1).count()), Pieces::kMost);
  EXPECT_EQ((Whole{.groups = 1 << 20, .work = kHuge}.cut(1, 5).count()), 5U);
  EXPECT_EQ((Whole{.groups = 1 << 20, .work = kHuge}.cut(1, 1).count()), 1U);
}

TEST(Pieces, of_all_threads_that_32_bits_count_have_no_number_twice) {
  // The last grid would have more workgroups than are left, with numbers past 32 bits.
  const Whole whole{.groups = std::uint64_t{65535} * 1024, .work = kHuge};
  for (const std::uint32_t most : {2U, 3U, 7U, 1000U}) {
    const auto pieces = whole.cut(1, most);
    const auto last = pieces[pieces.count() - 1];
    EXPECT_LT(64 * (last.first_group + count_of(last)), std::uint64_t{1} << 32U) << most;
  }
}

TEST(Pieces, have_each_workgroup_once) {
  std::minstd_rand random(7);
  const auto draw = [&](std::uint64_t most) { return 1 + (std::uint64_t{random()} << 31U | random()) % most; };
  for (int i = 0; i < 20'000; ++i) {
    Whole whole{.work = draw(kHuge >> draw(62)), .workgroup = static_cast<std::uint32_t>(1U << draw(8))};
    whole.limits.max_workgroups_per_dimension = static_cast<std::uint32_t>(i % 2 == 0 ? 65535 : draw(100));
    const std::uint64_t side = whole.limits.max_workgroups_per_dimension;
    whole.groups = draw(std::min(side * side * side, (std::uint64_t{1} << 31U) / whole.workgroup) >> draw(20) | 1U);
    const auto most_work = draw(whole.work);
    const auto most = static_cast<std::uint32_t>(draw(2000));
    const auto grid = grid_for(whole.groups * whole.workgroup, whole.workgroup, whole.limits);
    if (!grid) continue;
    const auto pieces = whole.cut(most_work, most);
    ASSERT_LE(pieces.count(), std::min(most, Pieces::kMost));
    const auto group_work = Size(whole.work).div_up(whole.groups).unchecked();
    const auto wanted = whole.groups / std::max<std::uint64_t>(1, most_work / group_work) + 1;
    const bool are_enough = 2 * wanted <= std::min(most, Pieces::kMost);
    std::uint64_t next = 0;
    for (std::uint32_t k = 0; k < pieces.count(); ++k) {
      const Piece piece = pieces[k];
      ASSERT_EQ(piece.first_group, next);
      for (const auto size : piece.grid) ASSERT_LE(size, side);
      const bool is_last = k + 1 == pieces.count();
      const auto groups = is_last ? whole.groups - next : count_of(piece);
      ASSERT_GE(count_of(piece), groups);
      ASSERT_GT(groups, 0U);
      if (are_enough && groups > 1) {
        ASSERT_LE(piece.work, most_work);
      }
      next += groups;
    }
    ASSERT_EQ(next, whole.groups);
  }
}

/// A product of [rows, depth] by [depth, columns], as a plan and its first call.
struct Product {
  GraphBuilder b;
  ValueId x;

  Product(std::int64_t rows, std::int64_t depth, std::int64_t columns) : x(b.tensor(DType::f32, {rows, depth})) {
    const auto w = b.tensor(DType::f32, {depth, columns});
    const auto y = b.tensor(DType::f32, {rows, columns});
    b.op("aten.mm.default", {x, w, y});
    b.input(x);
    b.input(w);
    b.output(y);
  }
};

TEST(Pieces, a_huge_product_is_many_dispatches_and_batches) {
  const Product huge(2048, 2048, 4096);
  DeviceProfile cpu;
  cpu.kind = AdapterKind::cpu;
  const auto plan = make(huge.b, cpu);
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  const auto dispatches = stepper.dispatches();
  EXPECT_GE(dispatches.size(), 64U);
  EXPECT_EQ(dispatches.size(), (*plan)->layout().max_dispatches);
  EXPECT_EQ((*plan)->ledger().dispatches.paid(), dispatches.size());
  EXPECT_EQ(stepper.batches().size(), dispatches.size());
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < dispatches.size(); ++i) {
    EXPECT_LE(dispatches[i]->work, default_batch_work(cpu));
    EXPECT_EQ(dispatches[i]->pipeline, dispatches[0]->pipeline);
    std::uint32_t first = 0;
    std::memcpy(&first, stepper.params().data() + i * kParamsStride, sizeof(first));
    EXPECT_EQ(first, next);
    next += dispatches[i]->grid[0] * dispatches[i]->grid[1] * dispatches[i]->grid[2];
  }
}

TEST(Pieces, a_small_call_of_a_huge_plan_is_one_dispatch) {
  const Product huge(2048, 2048, 4096);
  DeviceProfile cpu;
  cpu.kind = AdapterKind::cpu;
  const auto plan = make(huge.b, cpu);
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.set_shape(0, {1, 2048}));
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.dispatches().size(), 1U);
}

TEST(Pieces, of_attention_are_planned_for_any_position) {
  constexpr std::int64_t kPositions = 8192;
  GraphBuilder b;
  const auto activation = [&] { return b.tensor(DType::f32, {1, 64, 8, 64}); };
  const auto q = b.input(activation());
  const auto k = b.input(activation());
  const auto start = b.input(b.symint());
  const auto keys = b.constant(DType::f32, {1, kPositions, 8, 64});
  const auto values = b.constant(DType::f32, {1, kPositions, 8, 64});
  const auto out = activation();
  b.op("sdpa_with_kv_cache.default",
       {q, k, k, keys, values, start, b.integer(1), b.null(), b.integer(0), b.boolean(true), b.null(), out});
  b.output(out);
  DeviceProfile cpu;
  cpu.kind = AdapterKind::cpu;
  const auto plan = make(b, cpu);
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  const auto first = stepper.dispatches().size();
  ASSERT_TRUE(stepper.set_int(2, kPositions - 64));
  ASSERT_TRUE(stepper.update());
  EXPECT_GT(stepper.dispatches().size(), first);
  for (const auto* dispatch : stepper.dispatches()) EXPECT_LE(dispatch->work, default_batch_work(cpu));
}

TEST(Pieces, are_larger_where_a_call_may_have_few_dispatches) {
  const Product huge(2048, 2048, 4096);
  for (const std::uint64_t most : {1, 2, 10}) {
    const auto plan = make(huge.b, {}, {.max_dispatches = most, .max_batch_work = 1 << 20});
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_LE((*plan)->layout().max_dispatches, most);
    Stepper stepper(*plan);
    ASSERT_TRUE(stepper.update());
    EXPECT_LE(stepper.dispatches().size(), most);
    EXPECT_GT(stepper.dispatches().size(), most / 2);
  }
}

TEST(Pieces, of_many_dispatches_are_not_too_many_in_all) {
  GraphBuilder b;
  const auto x = b.tensor(DType::f32, {1 << 20});
  auto y = x;
  for (int i = 0; i < 100; ++i) y = b.add(y, x, {1 << 20});
  b.input(x);
  b.output(y);
  const Options options{.without_passes = {"elementwise_chains"}, .max_batch_work = 1};
  const auto plan = Plan::make(b.graph, {}, options, ops::registry());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_LE((*plan)->layout().max_dispatches, 65536U + 100);
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  EXPECT_LE(stepper.dispatches().size(), (*plan)->layout().max_dispatches);
  EXPECT_GE(stepper.dispatches().size(), 30'000U);
}

}  // namespace
}  // namespace nibble
