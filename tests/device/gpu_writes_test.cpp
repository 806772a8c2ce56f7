// How inputs get to the GPU: written where kernels read them, where memory is one, and else through the queue.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "gpu_fixture.hpp"

namespace nibble::test {
namespace {

constexpr std::int64_t kMost = 41;

/// x of at most kMost elements -> x + x.
BlobBuilder doubling(DType dtype = DType::f32) {
  BlobBuilder b;
  const int x = b.tensor(dtype, {kMost});
  const int out = b.tensor(dtype, {kMost});
  b.op("aten.add.Tensor", {x, x, b.integer(1), out});
  b.inputs({x});
  b.outputs({out});
  return b;
}

class WritesTest : public LoadedTest {
 protected:
  static gpu::Executor& executor(const Session& s) { return *Internals::of(s)->executor; }
  bool can_map() { return Internals::of(device)->gpu->profile().mapped_storage; }

  /// As many elements, all with this value.
  static testing::AssertionResult doubles(Session& s, float value, std::int64_t count = kMost) {
    const std::vector<float> x(static_cast<std::size_t>(count), value);
    const auto got = call<float>(s, {tensor(DType::f32, {count}, x)}, DType::f32);
    if (!got) return testing::AssertionFailure() << got.error().message;
    return std::ranges::count(*got, 2 * value) == count ? testing::AssertionSuccess() : testing::AssertionFailure();
  }
};

TEST_F(WritesTest, a_cpu_adapter_maps_what_kernels_use) {
  const auto& profile = Internals::of(device)->gpu->profile();
  if (profile.kind != AdapterKind::cpu) GTEST_SKIP() << "another adapter need not";
  EXPECT_TRUE(profile.mapped_storage) << "all inputs and outputs are copied";
}

TEST_F(WritesTest, every_call_writes_without_a_copy_from_the_first_on_unless_it_is_told_not_to) {
  for (const bool staged : {false, true}) {
    Session& s = session(doubling(), {{.staged = staged}});
    for (std::uint64_t i = 1; i <= 3; ++i) {
      EXPECT_TRUE(doubles(s, static_cast<float>(i)));
      EXPECT_EQ(executor(s).mapped_inputs(), can_map() && !staged ? i : 0);
    }
  }
}

TEST_F(WritesTest, an_input_that_is_an_output_or_that_nobody_reads_goes_its_own_way) {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {kMost});
  const int unused = b.tensor(DType::f32, {kMost});
  const int out = b.tensor(DType::f32, {kMost});
  b.op("aten.add.Tensor", {x, x, b.integer(1), out});
  b.inputs({x, unused});
  b.outputs({x, out});
  Session& s = session(b);
  for (int i = 1; i <= 2; ++i) {
    const std::vector<float> given(kMost, static_cast<float>(i));
    const std::vector inputs(2, tensor(DType::f32, {kMost}, given));
    ASSERT_TRUE(succeeds(s.set_inputs(inputs)));
    std::vector<float> same(kMost);
    std::vector<float> twice(kMost);
    const std::vector<HostOutput> outputs = {{DType::f32, same.data(), same.size() * 4},
                                             {DType::f32, twice.data(), twice.size() * 4}};
    ASSERT_TRUE(succeeds(s.execute(outputs)));
    EXPECT_EQ(same, given);
    EXPECT_EQ(twice, std::vector<float>(kMost, static_cast<float>(2 * i)));
  }
  EXPECT_EQ(executor(s).mapped_inputs(), 0U);
}

TEST_F(WritesTest, elements_are_converted_where_kernels_read_them_at_any_size) {
  Session& halves = session(doubling(DType::f16));
  for (const std::int64_t count : {kMost, std::int64_t{1}, std::int64_t{0}, std::int64_t{6}}) {
    EXPECT_TRUE(doubles(halves, 3, count)) << count;
  }
  Session& rows = session(embedding());
  for (const auto& ids : {std::vector<std::int64_t>{3, 49}, {1, 2, 3, 4, 5, 6}, {0, 7}}) {
    const auto half = static_cast<std::int64_t>(ids.size() / 2);
    const auto got = call<float>(rows, {tensor(DType::i64, {2, half}, ids)}, DType::f32);
    ASSERT_TRUE(succeeds(got));
    EXPECT_TRUE(are_rows(*got, ids));
  }
}

TEST_F(WritesTest, inputs_may_be_set_again_after_good_and_bad_ones) {
  Session& s = session(embedding());
  const auto set = [&](const std::vector<std::int64_t>& ids) {
    const auto input = tensor(DType::i64, {2, 1}, ids);
    return s.set_inputs({&input, 1});
  };
  ASSERT_TRUE(succeeds(set({1, 2})));
  EXPECT_TRUE(fails_with(set({3, 50}), "[1, 0] is 50, but the table has 50 rows"));
  ASSERT_TRUE(succeeds(set({5, 6})));
  std::vector<float> got(2 * kWidth);
  const HostOutput output{DType::f32, got.data(), got.size() * 4};
  ASSERT_TRUE(succeeds(s.execute({&output, 1})));
  EXPECT_TRUE(are_rows(got, std::vector<std::int64_t>{5, 6}));
}

TEST_F(WritesTest, after_a_cancelled_call_the_next_one_is_right_and_the_one_after_it_is_mapped_again) {
  Session& s = session(doubling());
  const std::vector<float> x(kMost, 5);
  const auto input = tensor(DType::f32, {kMost}, x);
  ASSERT_TRUE(succeeds(s.set_inputs({&input, 1})));
  s.cancel();
  std::vector<float> out(kMost);
  const HostOutput output{DType::f32, out.data(), out.size() * 4};
  EXPECT_TRUE(fails_with(s.execute({&output, 1}), "cancelled"));
  EXPECT_TRUE(doubles(s, 6));
  const auto before = executor(s).mapped_inputs();
  EXPECT_TRUE(doubles(s, 7));
  EXPECT_EQ(executor(s).mapped_inputs() - before, can_map() ? 1U : 0U);
}

TEST_F(WritesTest, what_is_measured_has_the_inputs_and_leaves_them_writable) {
  Session& s = session(doubling());
  const std::vector<float> x(kMost, 2);
  const auto input = tensor(DType::f32, {kMost}, x);
  ASSERT_TRUE(succeeds(executor(s).set_inputs({&input, 1})));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(succeeds(executor(s).measure(2)));
  std::vector<float> out(kMost);
  const HostOutput output{DType::f32, out.data(), out.size() * 4};
  ASSERT_TRUE(succeeds(executor(s).submit({&output, 1})));
  ASSERT_TRUE(succeeds(executor(s).wait({&output, 1})));
  EXPECT_EQ(out, std::vector<float>(kMost, 4));
  EXPECT_TRUE(doubles(s, 4));
}

TEST_F(WritesTest, sessions_on_two_threads_write_their_own) {
  session(doubling());
  auto other = loaded->model.session();
  ASSERT_TRUE(succeeds(other));
  std::vector<int> wrong(2);
  const auto use = [&](Session& s, std::size_t number) {
    for (int i = 0; i < 50; ++i) {
      if (!doubles(s, static_cast<float>(100 * number + static_cast<std::size_t>(i)))) ++wrong[number];
    }
  };
  std::thread thread([&] { use(*other, 1); });
  use(loaded->session, 0);
  thread.join();
  EXPECT_EQ(wrong, std::vector<int>(2));
  EXPECT_EQ(executor(*other).mapped_inputs(), can_map() ? 50U : 0U);
}

TEST_F(WritesTest, a_session_may_go_while_its_inputs_are_mapped_or_about_to_be) {
  session(doubling());
  const auto objects = device.live_objects();
  const std::vector<float> x(kMost, 1);
  const auto input = tensor(DType::f32, {kMost}, x);
  for (const bool submits : {false, true}) {
    auto other = loaded->model.session();
    ASSERT_TRUE(succeeds(other));
    ASSERT_TRUE(succeeds(other->set_inputs({&input, 1})));
    if (submits) {
      const HostOutput none;
      ASSERT_TRUE(succeeds(other->submit({&none, 1})));
    }
  }
  EXPECT_EQ(device.live_objects(), objects);
  EXPECT_TRUE(doubles(loaded->session, 1));
}

TEST_F(WritesTest, a_forked_child_does_not_change_its_parents_inputs) {
  Session& s = session(doubling());
  ASSERT_TRUE(doubles(s, 1));
  const auto set = [&](float value) {
    const std::vector<float> x(kMost, value);
    const auto input = tensor(DType::f32, {kMost}, x);
    return executor(s).set_inputs({&input, 1}).has_value();
  };
  ASSERT_TRUE(set(2));
  const pid_t child = fork();
  if (child == 0) _exit(set(9) ? 1 : 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  std::vector<float> out(kMost);
  const HostOutput output{DType::f32, out.data(), out.size() * 4};
  ASSERT_TRUE(succeeds(s.execute({&output, 1})));
  EXPECT_EQ(out, std::vector<float>(kMost, 4));
}

TEST_F(WritesTest, on_a_lost_device_inputs_cannot_be_set_and_nothing_ends) {
  for (const bool submits : {false, true}) {
    auto opened = Device::open();
    ASSERT_TRUE(succeeds(opened));
    device = *opened;
    Session& s = session(doubling());
    ASSERT_TRUE(doubles(s, 1));
    const std::vector<float> x(kMost, 1);
    const auto input = tensor(DType::f32, {kMost}, x);
    ASSERT_TRUE(succeeds(s.set_inputs({&input, 1})));
    if (submits) {
      const HostOutput none;
      ASSERT_TRUE(succeeds(s.submit({&none, 1})));
    }
    Internals::of(device)->gpu->destroy_for_test();
    if (submits) (void)s.wait();  // nothing is read, so it need not see that the device is lost
    EXPECT_TRUE(fails_with(call<float>(s, {input}, DType::f32), "is lost"));
    loaded.reset();
  }
}

}  // namespace
}  // namespace nibble::test
