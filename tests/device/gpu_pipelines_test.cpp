// The cache of compiled kernels.
#include <atomic>
#include <thread>

#include "gpu_fixture.hpp"

namespace nibble::test {
namespace {

PipelineDesc kernel_number(int n) {
  return {.label = fmt::format("k{}", n),
          .wgsl = fmt::format("@compute @workgroup_size(1) fn main() {{ let x = {}; _ = x; }}", n),
          .bindings = {},
          .overrides = {}};
}

class PipelinesTest : public GpuTest {
 protected:
  gpu::Device& gpu = *Internals::of(device)->gpu;
};

TEST_F(PipelinesTest, those_that_nobody_uses_leave_the_cache) {
  constexpr int kMany = static_cast<int>(gpu::Pipelines::kMostUnused) + 40;
  const auto used = gpu.pipelines().get(kernel_number(-1));
  ASSERT_TRUE(succeeds(used));
  for (int i = 0; i < kMany; ++i) ASSERT_TRUE(succeeds(gpu.pipelines().get(kernel_number(i))));
  const auto full = gpu.engine().live_objects();
  auto compiled = device.compiled_pipelines();
  for (int i = kMany; i < 2 * kMany; ++i) ASSERT_TRUE(succeeds(gpu.pipelines().get(kernel_number(i))));
  EXPECT_EQ(gpu.engine().live_objects(), full) << "the number levels";
  EXPECT_EQ(device.compiled_pipelines(), compiled + kMany);
  compiled = device.compiled_pipelines();
  // What is in use stays, and so do those that were used last.
  EXPECT_EQ(gpu.pipelines().get(kernel_number(-1)).value_or(nullptr), *used);
  EXPECT_TRUE(succeeds(gpu.pipelines().get(kernel_number(2 * kMany - 1))));
  EXPECT_EQ(device.compiled_pipelines(), compiled);
  EXPECT_TRUE(succeeds(gpu.pipelines().get(kernel_number(0))));
  EXPECT_EQ(device.compiled_pipelines(), compiled + 1);
}

TEST_F(PipelinesTest, live_objects_are_no_fewer_while_another_thread_compiles) {
  const auto live = [&] { return static_cast<std::ptrdiff_t>(device.live_objects()); };
  const auto objects = live();
  constexpr int kFirst = 10'000;  // of no other test
  std::atomic<bool> is_done = false;
  std::ptrdiff_t fewest = objects;
  {
    const std::jthread other([&] {
      for (int i = kFirst; i < kFirst + 400; ++i) EXPECT_TRUE(succeeds(gpu.pipelines().get(kernel_number(i))));
      is_done = true;
    });
    while (!is_done) fewest = std::min(fewest, live());
  }
  EXPECT_EQ(fewest, objects);
  EXPECT_EQ(live(), objects);
}

TEST_F(PipelinesTest, a_session_runs_while_another_thread_compiles) {
  auto loaded = load(embedding());
  ASSERT_TRUE(succeeds(loaded));
  const std::vector<std::int64_t> ids = {1, 2};
  int calls = 0;
  gpu.pipelines().on_compile_for_test = [&] {
    // If compiling held the lock that calls need, this would wait for itself.
    std::jthread([&] {
      const auto out = call<float>(loaded->session, {tensor(DType::i64, {1, 2}, ids)}, DType::f32);
      calls += out && are_rows(*out, ids) ? 1 : 0;
    }).join();
  };
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {64});
  int y = x;
  for (const char* op : {"aten.neg.default", "aten.exp.default", "aten.tanh.default", "aten.abs.default"}) {
    const int next = b.tensor(DType::f32, {64});
    b.op(op, {y, next});
    y = next;
  }
  b.inputs({x});
  b.outputs({y});
  const auto before = device.compiled_pipelines();
  EXPECT_TRUE(succeeds(load(b, {{.without_passes = {"elementwise_chains"}, .max_batch_work = 1}})));
  gpu.pipelines().on_compile_for_test = nullptr;
  EXPECT_GT(calls, 0);
  EXPECT_EQ(static_cast<std::size_t>(calls), device.compiled_pipelines() - before);
}

TEST_F(PipelinesTest, what_two_threads_want_at_once_is_compiled_once) {
  std::atomic<int> compiling = 0;
  gpu.pipelines().on_compile_for_test = [&] { ++compiling; };
  std::vector<std::shared_ptr<const gpu::Pipeline>> got(8);
  {
    std::vector<std::jthread> threads;
    for (auto& one : got) {
      threads.emplace_back([&] {
        if (auto made = gpu.pipelines().get(kernel_number(-2))) one = *made;
      });
    }
  }
  EXPECT_EQ(compiling, 1);
  for (const auto& one : got) EXPECT_TRUE(one != nullptr && one == got.front());
  // Where it fails, all are told.
  compiling = 0;
  std::atomic<int> told = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const auto made = gpu.pipelines().get({.label = "bad", .wgsl = "fn main( {", .bindings = {}, .overrides = {}});
        told += !made && made.error().message.contains("compiling the kernel bad failed") ? 1 : 0;
      });
    }
  }
  gpu.pipelines().on_compile_for_test = nullptr;
  EXPECT_EQ(told, 4);
  EXPECT_FALSE(device.lost());
}

TEST_F(PipelinesTest, an_error_of_one_thread_is_not_that_of_another) {
  auto loaded = load(embedding());
  ASSERT_TRUE(succeeds(loaded));
  const std::vector<std::int64_t> ids = {1, 2};
  std::atomic<bool> is_done = false;
  std::atomic<int> wrong = 0;
  {
    const std::jthread other([&] {
      while (!is_done) {
        const auto out = call<float>(loaded->session, {tensor(DType::i64, {1, 2}, ids)}, DType::f32);
        wrong += out && are_rows(*out, ids) ? 0 : 1;
      }
    });
    for (int i = 0; i < 50; ++i) {
      EXPECT_FALSE(gpu.pipelines().get(
          {.label = "bad", .wgsl = fmt::format("fn main( {{ {}", i), .bindings = {}, .overrides = {}}));
    }
    is_done = true;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(device.lost());
}

}  // namespace
}  // namespace nibble::test
