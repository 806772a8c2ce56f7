// The tuner on the device: what it measures, what it refuses, and how it ends.
#include "gpu/tuner.hpp"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "gpu/stop.hpp"
#include "gpu_fixture.hpp"
#include "ops/registry.hpp"
#include "stop_checks.hpp"
#include "support/graph_builder.hpp"

namespace nibble::test {
namespace {

constexpr std::uint64_t kLong = 600000;  // milliseconds: nothing here takes that long

// An op with variants that double their input: by a short kernel, by one that goes round a long loop, and by one that
// gives something else.
constexpr Shader kShort{.name = "test_short", .body = R"(
struct Params { first_group: u32, count: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i < params.count) { store4_result(i, 2.0 * load4_source(i)); }
}
)"};
constexpr Shader kLoop{.name = "test_loop", .body = R"(
struct Params { first_group: u32, count: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.count) { return; }
  let x = load4_source(i);
  var sum = x;
  for (var k = 0u; k < 2000u; k++) { sum = sum * 0.5 + x * 0.5 * sin(1.5707964 + 0.0 * sum); }
  store4_result(i, x + sum);
}
)"};
constexpr Shader kOther{.name = "test_other", .body = R"(
struct Params { first_group: u32, count: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i < params.count) { store4_result(i, 3.0 * load4_source(i)); }
}
)"};
constexpr Variant kVariants[] = {
    Variant("loop", {}, {}, {}, &kLoop, "the table is wrong"),
    Variant("other", {}, {}, {}, &kOther, "it is fast, and wrong"),
    Variant("short", {}, {}, {}, &kShort, "the fastest that is right"),
};
constexpr Choice kDoubling{"doubling", kVariants};

// Another, with one that does not compile.
constexpr Shader kBroken{.name = "test_broken", .body = R"(
@compute @workgroup_size(WG)
fn main() { store4_result(0u, nobody_knows_this); }
)"};
constexpr Variant kPartlyBroken[] = {
    Variant("short", {}, {}, {}, &kShort, "it is right"),
    Variant("broken", {}, {}, {}, &kBroken, "no engine takes it"),
};
constexpr Choice kFragile{"fragile", kPartlyBroken};

template <const Choice& choice>
Status doubled(Lowering& op, const Tensor& self, Out& out) {
  TRY(op.set_shape(out, self.shape));
  const auto& variant = op.choose(choice, {.rows = op.count(out)});
  const auto quads = static_cast<std::uint32_t>((self.numel() + 3) / 4);
  return op.dispatch({.shader = *variant.shader,
                      .bind = {op.read("source", self), op.write("result", out)},
                      .params = quads,
                      .threads = quads});
}

// An op that adds its input to a state, by variants of which one adds something else there.
constexpr Shader kAddOnce{.name = "test_add_once", .body = R"(
struct Params { first_group: u32, count: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.count) { return; }
  store4_sum(i, load4_sum(i) + load4_source(i));
  store4_result(i, load4_source(i));
}
)"};
constexpr Shader kAddTwice{.name = "test_add_twice", .body = R"(
struct Params { first_group: u32, count: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.count) { return; }
  store4_sum(i, load4_sum(i) + 2.0 * load4_source(i));
  store4_result(i, load4_source(i));
}
)"};
constexpr Variant kAdders[] = {
    Variant("once", {}, {}, {}, &kAddOnce, "it is right"),
    Variant("twice", {}, {}, {}, &kAddTwice, "the state is wrong"),
    Variant("again", {}, {}, {}, &kAddOnce, "it is right"),
};
constexpr Choice kAdding{"adding", kAdders};

Status added(Lowering& op, const Tensor& self, const State& sum, Out& out) {
  TRY(op.set_shape(out, self.shape));
  const auto& variant = op.choose(kAdding, {.rows = op.count(out)});
  const auto quads = static_cast<std::uint32_t>((self.numel() + 3) / 4);
  return op.dispatch({.shader = *variant.shader,
                      .bind = {op.read("source", self), op.update("sum", sum), op.write("result", out)},
                      .params = quads,
                      .threads = quads});
}

constexpr Op kOps[] = {op<doubled<kDoubling>>("test.doubled", "self -> out"),
                       op<doubled<kFragile>>("test.fragile", "self -> out"),
                       op<added>("test.added", "self, sum -> out")};
const Family kFamily{"test", kOps, {&kDoubling, &kFragile, &kAdding}};

struct NoConstants final : ConstantSource {
  Status read(std::uint32_t, std::uint64_t, std::span<std::byte>) override {
    return fail(ErrorCode::io, "there are none");
  }
};

class TunerTest : public GpuTest {
 protected:
  /// The plan of doubled(x), x [most] or smaller, by `count` nodes.
  std::shared_ptr<const Plan> doubling(std::int64_t most, int count = 1) {
    GraphBuilder b;
    auto x = b.input(b.tensor(DType::f32, {most}));
    for (int i = 0; i < count; ++i) {
      const auto next = b.tensor(DType::f32, {most});
      b.op("test.doubled", {x, next});
      x = next;
    }
    b.output(x);
    auto plan = Plan::make(b.graph, gpu()->profile(), {}, {&kFamily, 1});
    EXPECT_TRUE(succeeds(plan));
    return *plan;
  }
  Result<gpu::Tuned> tune(const std::shared_ptr<const Plan>& plan, std::uint64_t ms = kLong,
                          const gpu::Progress& progress = nullptr) {
    NoConstants none;
    return gpu::tune(gpu(), plan, {}, {&kFamily, 1}, none, ms, progress);
  }
  const std::shared_ptr<gpu::Device>& gpu() { return Internals::of(device)->gpu; }
};

TEST_F(TunerTest, finds_the_fast_variant_and_refuses_the_wrong_one) {
  const auto largest_of = [](const gpu::Tuned& all) {
    return std::ranges::find(all.rows, std::uint64_t{4096}, [](const TunedRow& r) { return r.row.min_rows; });
  };
  auto tuned = tune(doubling(4096, 2));
  // Where others take the processors in the midst of a round, nothing is clear, and the table's preference stays.
  for (int again = 0; again < 4; ++again) {
    ASSERT_TRUE(succeeds(tuned));
    if (const auto row = largest_of(*tuned); row != tuned->rows.end() && row->row.variant == "short") break;
    tuned = tune(doubling(4096, 2));
  }
  ASSERT_TRUE(succeeds(tuned));
  EXPECT_EQ(tuned->cases, 8U) << "1, 2, 4, 16, 64, 256, 1024, 4096 elements, of two nodes that are alike";
  EXPECT_EQ(tuned->measured, tuned->cases);
  EXPECT_EQ(tuned->ended, gpu::Tuned::Ended::complete);
  ASSERT_EQ(tuned->refused.size(), 1U);
  EXPECT_EQ(tuned->refused[0], "test.doubled: doubling=other: its results differ from those of loop");
  const auto largest = largest_of(*tuned);
  ASSERT_NE(largest, tuned->rows.end());
  EXPECT_EQ(largest->row.variant, "short");
  EXPECT_EQ(largest->before, "loop");
  for (const auto& row : tuned->rows) {
    EXPECT_NE(row.row.variant, "other");
    EXPECT_EQ(std::ranges::find(row.times, "other", &std::pair<std::string, double>::first), row.times.end());
  }
}

TEST_F(TunerTest, tells_how_far_it_is) {
  std::vector<std::uint64_t> seen;
  const auto tuned = tune(doubling(64), kLong, [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_LE(done, total);
    seen.push_back(done);
  });
  ASSERT_TRUE(succeeds(tuned));
  EXPECT_EQ(seen.size(), tuned->cases);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
}

TEST_F(TunerTest, without_time_it_has_nothing_and_says_so) {
  const auto tuned = tune(doubling(64), 0);
  ASSERT_TRUE(succeeds(tuned));
  EXPECT_EQ(tuned->measured, 0U);
  EXPECT_EQ(tuned->cases, 0U) << "the limit is one for the search, too";
  EXPECT_TRUE(tuned->rows.empty());
  EXPECT_EQ(tuned->ended, gpu::Tuned::Ended::out_of_time);
}

TEST_F(TunerTest, stops_when_asked_and_keeps_what_it_has) {
  static bool is_enough;
  is_enough = false;
  set_stop_check([] { return is_enough; });
  const auto tuned = tune(doubling(64), kLong, [&](std::uint64_t done, std::uint64_t) { is_enough = done == 3; });
  set_stop_check(nullptr);
  ASSERT_TRUE(succeeds(tuned));
  EXPECT_EQ(tuned->ended, gpu::Tuned::Ended::stopped);
  EXPECT_EQ(tuned->measured, 3U);
  EXPECT_FALSE(tuned->rows.empty());
}

// What is measured is one submission, which asks nobody: somebody must ask between them.
TEST_F(TunerTest, stops_in_the_midst_of_a_case_when_asked) {
  static int answers;
  static int asked;
  const auto tune_until = [&](int answer) {
    GraphBuilder b;
    const auto out = b.tensor(DType::f32, {1});
    b.op("test.doubled", {b.input(b.tensor(DType::f32, {1})), out});
    b.output(out);
    const auto plan = Plan::make(b.graph, gpu()->profile(), {}, {&kFamily, 1});
    EXPECT_TRUE(succeeds(plan));
    answers = answer;
    asked = 0;
    set_stop_check([] { return ++asked > answers; });
    auto tuned = tune(*plan);
    set_stop_check(nullptr);
    EXPECT_TRUE(succeeds(tuned));
    return tuned.value_or(gpu::Tuned{});
  };
  int answer = 0;
  auto tuned = tune_until(answer);
  for (; tuned.measured == 0 && answer < 1000; tuned = tune_until(++answer)) {
    EXPECT_EQ(tuned.ended, gpu::Tuned::Ended::stopped) << answer;
  }
  EXPECT_EQ(tuned.ended, gpu::Tuned::Ended::complete);
  EXPECT_GT(answer, 15) << "most of them are between the samples";
}

TEST_F(TunerTest, a_variant_that_does_not_compile_is_refused_and_no_other) {
  GraphBuilder b;
  const auto out = b.tensor(DType::f32, {64});
  b.op("test.fragile", {b.input(b.tensor(DType::f32, {64})), out});
  b.output(out);
  const auto plan = Plan::make(b.graph, gpu()->profile(), {}, {&kFamily, 1});
  ASSERT_TRUE(succeeds(plan));
  const auto tuned = tune(*plan);
  ASSERT_TRUE(succeeds(tuned));
  EXPECT_EQ(tuned->measured, tuned->cases);
  EXPECT_FALSE(tuned->rows.empty());
  ASSERT_EQ(tuned->refused.size(), 1U);
  EXPECT_TRUE(tuned->refused[0].starts_with("test.fragile: fragile=broken: compiling the kernel test_broken"))
      << tuned->refused[0];
}

TEST_F(TunerTest, a_variant_that_leaves_another_state_is_refused) {
  struct Ones final : ConstantSource {
    Status read(std::uint32_t, std::uint64_t, std::span<std::byte> to) override {
      std::ranges::fill(to, std::byte{1});
      return {};
    }
  } ones;
  GraphBuilder b;
  const auto out = b.tensor(DType::f32, {64});
  b.op("test.added", {b.input(b.tensor(DType::f32, {64})), b.constant(DType::f32, {64}), out});
  b.output(out);
  const auto plan = Plan::make(b.graph, gpu()->profile(), {}, {&kFamily, 1});
  ASSERT_TRUE(succeeds(plan));
  const auto tuned = gpu::tune(gpu(), *plan, {}, {&kFamily, 1}, ones, kLong, nullptr);
  ASSERT_TRUE(succeeds(tuned));
  EXPECT_EQ(tuned->measured, tuned->cases);
  EXPECT_EQ(tuned->refused,
            std::vector<std::string>{"test.added: adding=twice: its results differ from those of once"});
}

TEST_F(TunerTest, its_time_does_not_end_what_the_progress_does) {
  const auto plan = doubling(64);
  constexpr std::uint64_t kShortMs = 1000;
  std::optional<Result<gpu::Tuned>> own;
  const auto tuned = tune(plan, kShortMs, [&](std::uint64_t, std::uint64_t) {
    if (own) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(kShortMs));
    EXPECT_FALSE(gpu::is_stop_wanted());
    own = tune(plan);
  });
  ASSERT_TRUE(succeeds(tuned));
  EXPECT_EQ(tuned->ended, gpu::Tuned::Ended::out_of_time);
  ASSERT_TRUE(own && succeeds(*own));
  EXPECT_EQ((*own)->ended, gpu::Tuned::Ended::complete);
}

TEST_F(TunerTest, its_time_does_not_end_what_a_stop_check_does) {
  bool is_asked = false;
  const Acts asked([&] {
    if (std::exchange(is_asked, true)) return;
    EXPECT_FALSE(gpu::is_stop_wanted());
  });
  const auto tuned = tune(doubling(64), 0);
  ASSERT_TRUE(succeeds(tuned));
  EXPECT_EQ(tuned->ended, gpu::Tuned::Ended::out_of_time);
  EXPECT_TRUE(is_asked);
}

TEST_F(TunerTest, what_the_gpu_has_no_memory_for_is_refused_with_a_word) {
  struct NoRoom final : ConstantSource {
    Status read(std::uint32_t, std::uint64_t, std::span<std::byte>) override {
      return fail(ErrorCode::out_of_memory, "there is no room");
    }
  } no_room;
  // Of few small kernels: all of a node's are compiled before its constants are read.
  GraphBuilder b;
  const auto ids = b.input(b.tensor(DType::i32, {4, 8}));
  const auto out = b.tensor(DType::f32, {4, 8, 32});
  b.op("et_vk.embedding_q4gsw.default",
       {b.constant(DType::u8, {50, 16}), b.constant(DType::f32, {50, 2}), b.integer(16), ids, b.boolean(true), out});
  b.output(out);
  const auto plan = Plan::make(b.graph, gpu()->profile(), {}, ops::registry());
  ASSERT_TRUE(succeeds(plan));
  const auto tuned = gpu::tune(gpu(), *plan, {}, ops::registry(), no_room, kLong, nullptr);
  ASSERT_TRUE(succeeds(tuned));
  EXPECT_EQ(tuned->measured, 0U);
  EXPECT_GT(tuned->cases, 0U);
  EXPECT_EQ(tuned->refused,
            std::vector<std::string>{"et_vk.embedding_q4gsw.default: cannot be measured by itself: there is no room"});
}

TEST_F(TunerTest, a_lost_device_is_an_error) {
  const auto tuned = tune(doubling(64), kLong, [&](std::uint64_t done, std::uint64_t) {
    if (done == 2) gpu()->destroy_for_test();
  });
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::device_lost) << tuned.error().message;
}

}  // namespace
}  // namespace nibble::test
