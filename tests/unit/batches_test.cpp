#include "plan/batches.hpp"

#include <limits>

#include "support/planning.hpp"

namespace nibble {
namespace {

using namespace test;

std::vector<std::uint32_t> ends_of(const std::vector<std::uint64_t>& works, std::uint64_t most) {
  std::vector<Dispatch> dispatches(works.size());
  std::vector<const Dispatch*> order;
  for (std::size_t i = 0; i < works.size(); ++i) {
    dispatches[i].work = works[i];
    order.push_back(&dispatches[i]);
  }
  std::vector<std::uint32_t> ends{7};
  cut_batches(order, most, ends);
  return ends;
}

using Ends = std::vector<std::uint32_t>;

TEST(Batches, have_as_much_work_as_they_may) {
  EXPECT_EQ(ends_of({}, 10), Ends{});
  EXPECT_EQ(ends_of({1}, 10), Ends{1});
  EXPECT_EQ(ends_of({5, 5, 5, 5, 1}, 10), (Ends{2, 4, 5}));
  EXPECT_EQ(ends_of({9, 2, 8, 1}, 10), (Ends{1, 3, 4}));
}

TEST(Batches, a_dispatch_that_is_too_large_is_one) {
  constexpr auto kHuge = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(ends_of({11, 1, 11, 11}, 10), (Ends{1, 2, 3, 4}));
  EXPECT_EQ(ends_of({kHuge, kHuge}, kHuge), (Ends{1, 2}));
}

TEST(Batches, a_dispatch_costs_something_even_if_it_does_nothing) {
  EXPECT_EQ(ends_of(std::vector<std::uint64_t>(3, 0), 1), (Ends{1, 2, 3}));
  EXPECT_EQ(ends_of(std::vector<std::uint64_t>(10000, 0), 1 << 27), (Ends{8192, 10000}));
}

TEST(Batches, a_cpu_gets_the_least_at_once) {
  const auto work = [](AdapterKind kind) {
    DeviceProfile profile;
    profile.kind = kind;
    return default_batch_work(profile);
  };
  EXPECT_LT(work(AdapterKind::cpu), work(AdapterKind::unknown));
  EXPECT_EQ(work(AdapterKind::unknown), work(AdapterKind::integrated));
  EXPECT_LT(work(AdapterKind::integrated), work(AdapterKind::discrete));
}

/// A matrix product of n x k by k x n.
struct Multiplied {
  GraphBuilder b;
  Multiplied(std::int64_t n, std::int64_t k) {
    const auto x = b.tensor(DType::f32, {n, k});
    const auto w = b.tensor(DType::f32, {k, n});
    const auto y = b.tensor(DType::f32, {n, n});
    b.op("aten.mm.default", {x, w, y});
    b.input(x);
    b.input(w);
    b.output(y);
  }
  std::uint64_t work() const {
    const auto plan = make(b);
    if (!plan) return 0;
    Stepper stepper(*plan);
    if (!stepper.update()) return 0;
    std::uint64_t sum = 0;
    for (const auto* dispatch : stepper.dispatches()) sum += dispatch->work;
    return sum;
  }
};

TEST(Batches, work_grows_with_the_depth_of_loops) {
  const auto small = Multiplied(64, 64).work();
  EXPECT_GE(small, 64U * 64 * 64 / 4);
  EXPECT_GE(Multiplied(64, 6400).work(), 50 * small);
}

TEST(Batches, work_that_64_bits_cannot_count_is_the_most) {
  const Shader shader{.name = "k", .body = ""};
  Kernel kernel{.shader = shader, .threads = 10};
  kernel.work = Size(std::uint64_t{1} << 63) * 4;
  EXPECT_EQ(work_of(kernel), std::numeric_limits<std::uint64_t>::max());
}

TEST(Batches, the_option_cuts_the_calls_of_a_plan) {
  GraphBuilder b;
  const auto x = b.tensor(DType::f32, {64});
  auto y = x;
  for (int i = 0; i < 5; ++i) y = b.add(y, x, {64});
  b.input(x);
  b.output(y);
  const auto batches = [&](std::uint64_t most) -> std::size_t {
    const auto plan = make(b, {}, {.without_passes = {"elementwise_chains"}, .max_batch_work = most});
    EXPECT_TRUE(plan) << plan.error().message;
    Stepper stepper(*plan);
    EXPECT_TRUE(stepper.update());
    EXPECT_EQ(stepper.dispatches().size(), 5U);
    EXPECT_EQ(stepper.batches().back(), 5U);
    return stepper.batches().size();
  };
  EXPECT_EQ(batches(0), 1U);
  EXPECT_EQ(batches(1), 5U);
}

}  // namespace
}  // namespace nibble
