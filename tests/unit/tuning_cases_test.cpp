// What is measured of a node that depends on how far a session is: at several positions, up to the last.
#include <gtest/gtest.h>

#include <set>

#include "plan/tuning_cases.hpp"
#include "support/expect.hpp"
#include "support/planning.hpp"

namespace nibble {
namespace {

using namespace test;

constexpr Shader kCopied{.name = "test_copied", .body = R"(
struct Params { first_group: u32, count: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i < params.count) { store4_result(i, load4_source(i)); }
}
)"};
constexpr Variant kFewMany[] = {
    Variant("few", {}, {}, {}, nullptr, "few keys"),
    Variant("many", {}, {}, {}, nullptr, "many keys"),
};
constexpr Choice kByRows{"by_rows", kFewMany};
constexpr Choice kByDepth{"by_depth", kFewMany};

Status copied(Lowering& op, const Tensor& from, Out& out, std::uint64_t work) {
  const auto quads = static_cast<std::uint32_t>((out.shape.numel() + 3) / 4);
  return op.dispatch({.shader = kCopied,
                      .bind = {op.read("source", from), op.write("result", out)},
                      .params = quads,
                      .threads = quads,
                      .work = work});
}

/// Rows that go to a cache at a position; one choice is by them alone, the other by what is in the cache, too.
Status kept(Lowering& op, const Tensor& self, const State& cache, LiveInt start, Out& out) {
  const auto end = start.value + self.shape[0];
  if (start.value < 0 || end > cache.shape[0] || self.shape[1] != cache.shape[1]) return op.fail("it does not fit");
  TRY(op.set_shape(out, self.shape));
  op.use_rows(cache, 0, end);
  const auto most = static_cast<std::uint64_t>(cache.shape[0]);
  const Extent rows{static_cast<std::uint64_t>(self.shape[0]), 1, most};
  op.choose(kByRows, {.rows = rows});
  op.choose(kByDepth, {.rows = rows, .depth = Extent{static_cast<std::uint64_t>(end), 1, most}});
  return copied(op, self, out, 1);
}

/// The last row.
Status last(Lowering& op, const Tensor& self, Out& out) {
  TRY(op.set_shape(out, {1, self.shape[1]}));
  return copied(op, self, out, 1);
}

/// By several dispatches, each with a variant of its own.
Status in_parts(Lowering& op, const Tensor& self, Out& out) {
  TRY(op.set_shape(out, self.shape));
  for (const std::uint64_t rows : {2, 7, 3}) {
    op.choose(kByRows, {.rows = {rows}});
    TRY(copied(op, self, out, 1000 * rows));
  }
  return {};
}

constexpr Op kKeptOps[] = {op<kept>("test.kept", "self, cache, start -> out"), op<last>("test.last", "self -> out"),
                           op<in_parts>("test.in_parts", "self -> out")};
const Family kKeptFamily{"test", kKeptOps, {&kByRows, &kByDepth}};

/// Rows and depths of the cases of a choice, for a cache of so many positions and calls of at most so many rows.
std::set<std::pair<std::uint64_t, std::uint64_t>> points(const Choice& choice, std::int64_t positions,
                                                         std::int64_t most) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {most, 8}));
  const auto start = b.input(b.symint());
  const auto out = b.tensor(DType::f32, {most, 8});
  b.op("test.kept", {x, b.constant(DType::f32, {positions, 8}), start, out});
  b.output(out);
  const auto plan = Plan::make(b.graph, {}, {}, {&kKeptFamily, 1});
  EXPECT_TRUE(succeeds(plan));
  std::set<std::pair<std::uint64_t, std::uint64_t>> found;
  if (!plan) return found;
  const auto cases = find_cases(*plan);
  EXPECT_TRUE(cases.is_complete);
  for (const auto& one : cases.cases) {
    if (one.point.choice != &choice) continue;
    EXPECT_TRUE(found.emplace(one.point.rows, one.point.depth.value_or(1)).second) << "each point once";
    EXPECT_EQ(static_cast<std::uint64_t>(cases.calls[one.call].integer) + one.point.rows,
              one.point.depth.value_or(128 + one.point.rows));
  }
  return found;
}

using Points = std::set<std::pair<std::uint64_t, std::uint64_t>>;

TEST(TuningCases, what_depends_on_the_position_is_measured_up_to_the_last) {
  EXPECT_EQ(points(kByDepth, 4096, 4), (Points{{1, 129},
                                               {1, 1025},
                                               {1, 4096},  //
                                               {2, 130},
                                               {2, 1026},
                                               {2, 4096},  //
                                               {4, 132},
                                               {4, 1028},
                                               {4, 4096}}));
  EXPECT_EQ(points(kByDepth, 300, 1), (Points{{1, 129}, {1, 300}}));
}

TEST(TuningCases, what_does_not_is_measured_once) {
  EXPECT_EQ(points(kByRows, 4096, 4), (Points{{1, 1}, {2, 1}, {4, 1}}));
}

TEST(TuningCases, what_does_the_same_in_calls_of_all_sizes_is_measured_once_and_each_choice_of_it_once) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {16, 1}));
  const auto row = b.tensor(DType::f32, {1, 1});
  const auto out = b.tensor(DType::f32, {1, 1});
  b.op("test.last", {x, row});
  b.op("test.in_parts", {row, out});
  b.output(out);
  const auto plan = Plan::make(b.graph, {}, {}, {&kKeptFamily, 1});
  ASSERT_TRUE(succeeds(plan));
  const auto found = find_cases(*plan);
  EXPECT_GT(found.calls.size(), 3U);
  ASSERT_EQ(found.cases.size(), 1U);
  EXPECT_EQ(found.cases[0].point.rows, 7U) << "where most is done";
}

}  // namespace
}  // namespace nibble
