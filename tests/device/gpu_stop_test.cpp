// Calls in several submissions, and calls and loads that are cancelled.
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "gpu_fixture.hpp"
#include "nibble/nibble.h"
#include "stop_checks.hpp"
#include "support/pte_builder.hpp"

namespace nibble::test {
namespace {

constexpr int kSteps = 40;
constexpr std::int64_t kSize = 64;

/// One submission for each dispatch.
LoadOptions one_by_one() { return {{.without_passes = {"elementwise_chains", "epilogues"}, .max_batch_work = 1}}; }

/// x -> kSteps times x, by as many sums. With a state, it first grows by x, and the result begins with it.
BlobBuilder sums(bool with_state = false) {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {kSize});
  int y = x;
  if (with_state) {
    y = b.constant(DType::f32, {kSize}, std::vector<float>(kSize), {.mem_obj = 0});
    b.op("aten.add.Tensor", {y, x, b.integer(1), y});
  }
  for (int i = 1; i < kSteps; ++i) {
    const int next = b.tensor(DType::f32, {kSize});
    b.op("aten.add.Tensor", {y, x, b.integer(1), next});
    y = next;
  }
  b.inputs({x});
  b.outputs({y});
  return b;
}

/// A program as a file, for a test.
struct ProgramFile {
  explicit ProgramFile(const BlobBuilder& builder) {
    const Bytes bytes = write_pte(describe(builder, {}));
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  ProgramFile(const ProgramFile&) = delete;
  ProgramFile& operator=(const ProgramFile&) = delete;
  ~ProgramFile() { std::filesystem::remove(path); }

  std::string path = std::filesystem::temp_directory_path() / fmt::format("nibble_stop_{}.pte", getpid());
};

class StopTest : public BothReadsTest {
 protected:
  static Result<std::vector<float>> run(Session& s) {
    return call<float>(s, {tensor(DType::f32, {kSize}, kOnes)}, DType::f32);
  }
  static float first_of(const Result<std::vector<float>>& out) { return out ? out->front() : -1; }
  static testing::AssertionResult is_right(const Result<std::vector<float>>& out) {
    if (!out) return testing::AssertionFailure() << out.error().message;
    return *out == kSums ? testing::AssertionSuccess() : testing::AssertionFailure() << out->front();
  }
  static testing::AssertionResult is_cancelled(const Result<std::vector<float>>& out, std::string_view text) {
    if (out) return testing::AssertionFailure() << "it was not cancelled";
    if (out.error().code != ErrorCode::cancelled) return testing::AssertionFailure() << out.error().message;
    return fails_with(out, text);
  }

  static inline const std::vector<float> kOnes = std::vector<float>(kSize, 1);
  static inline const std::vector<float> kSums = std::vector<float>(kSize, kSteps);
};

TEST_P(StopTest, a_call_in_many_submissions_has_two_in_flight) {
  auto& gpu = *Internals::of(device)->gpu;
  const auto waits_of = [&](const LoadOptions& options) {
    Session& s = session(sums(), options);
    const auto before = gpu.waits();
    EXPECT_TRUE(is_right(run(s)));
    return gpu.waits() - before;
  };
  EXPECT_EQ(waits_of({}), 1U);
  // The first of three is waited for before the third is submitted; the last, to read the results.
  EXPECT_EQ(waits_of(one_by_one()), kSteps - 1 - 2 + 1U);
}

TEST_P(StopTest, a_profile_in_many_submissions_has_all_times) {
  if (!device.info().timestamp_query) GTEST_SKIP();
  Session& s = session(sums(), one_by_one());
  const HostTensor input = tensor(DType::f32, {kSize}, kOnes);
  ASSERT_TRUE(succeeds(s.set_inputs({&input, 1})));
  std::vector<float> out(kSize);
  const HostOutput output{DType::f32, out.data(), out.size() * 4};
  const auto times = s.profile({&output, 1});
  ASSERT_TRUE(succeeds(times));
  EXPECT_EQ(times->size(), kSteps - 1U);
  EXPECT_EQ(out, kSums);
}

TEST_P(StopTest, a_fault_in_the_first_submission_is_told_after_the_last) {
  BlobBuilder b;
  const int ids = b.tensor(DType::i32, {1, 3});
  const int one = b.constant(DType::i32, {1}, std::vector<std::int32_t>{1});
  const int next = b.tensor(DType::i32, {1, 3});
  b.op("aten.add.Tensor", {ids, one, b.integer(1), next});
  int y = add_embedding(b, next, {1, 3});
  for (int i = 0; i < 10; ++i) {
    const int copy = b.tensor(DType::f32, {1, 3, kWidth});
    b.op("aten.add.Tensor", {y, y, b.integer(0), copy});
    y = copy;
  }
  b.inputs({ids});
  b.outputs({y});
  Session& s = session(b, one_by_one());
  const auto rows = [&](std::vector<std::int64_t> given) {
    return call<float>(s, {tensor(DType::i64, {1, 3}, given)}, DType::f32);
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(fails_with(rows({1, 49, 2}), "is 50, but the table has 50 rows"));
    EXPECT_TRUE(are_rows(*rows({0, 1, 2}), std::vector<std::int64_t>{1, 2, 3}));
    // A fault that a cancelled call does not tell is not the next call's.
    {
      const Questions questions(1);
      EXPECT_TRUE(is_cancelled(rows({1, 49, 2}), "cancelled"));
    }
    EXPECT_TRUE(are_rows(*rows({0, 1, 2}), std::vector<std::int64_t>{1, 2, 3}));
  }
}

TEST_P(StopTest, what_is_computed_at_load_is_submitted_in_batches) {
  const auto program = [] {
    BlobBuilder b;
    const int x = b.tensor(DType::f32, {kSize});
    int y = b.constant(DType::f32, {kSize}, std::vector<float>(kSize));
    const int one = b.constant(DType::f32, {kSize}, kOnes);
    for (int i = 0; i < kSteps; ++i) {
      const int next = b.tensor(DType::f32, {kSize});
      b.op("aten.add.Tensor", {y, one, b.integer(1), next});
      y = next;
    }
    const int out = b.tensor(DType::f32, {kSize});
    b.op("aten.mul.Tensor", {x, y, out});
    b.inputs({x});
    b.outputs({out});
    return b;
  }();
  EXPECT_TRUE(is_right(run(session(program, one_by_one()))));
  const Questions questions(5);
  const auto stopped = load(program, one_by_one());
  ASSERT_TRUE(fails_with(stopped, "loading was cancelled"));
  EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
}

TEST_P(StopTest, a_call_stops_between_two_submissions_and_the_next_one_is_right) {
  Session& s = session(sums(), one_by_one());
  for (const bool by_cancel : {true, false}) {
    for (const int at : {1, 2, kSteps - 1 - 2}) {
      {
        const Questions questions(at, by_cancel ? &s : nullptr);
        // What was asked when two were in flight is heard there, or before the next one.
        const int done = at + 1 + (by_cancel ? 1 : 0);
        EXPECT_TRUE(is_cancelled(run(s), done < kSteps - 1
                                             ? fmt::format("the call was cancelled after {} of its 39 dispatches", done)
                                             : "the call was cancelled when it was done"));
      }
      EXPECT_TRUE(is_right(run(s)));
    }
  }
  // A call of one submission is not asked for.
  Session& small = session(sums(), {});
  const Questions questions(1);
  EXPECT_TRUE(is_right(run(small)));
  EXPECT_EQ(Questions::asked, 0);
}

TEST_P(StopTest, cancelling_without_a_call_does_nothing) {
  Session& s = session(sums(), {});
  s.cancel();
  EXPECT_TRUE(is_right(run(s)));
  s.cancel();
  EXPECT_TRUE(is_right(run(s)));
  const Model model = loaded->model;
  model.cancel();
  EXPECT_FALSE(s.set_inputs({}));
  s.cancel();
  EXPECT_TRUE(is_right(run(s)));
}

TEST_P(StopTest, a_call_cancelled_before_it_began_changed_nothing) {
  Session& s = session(sums(true), one_by_one());
  EXPECT_EQ(first_of(run(s)), kSteps);
  const HostTensor input = tensor(DType::f32, {kSize}, kOnes);
  ASSERT_TRUE(succeeds(s.set_inputs({&input, 1})));
  s.cancel();
  std::vector<float> out(kSize);
  const HostOutput output{DType::f32, out.data(), out.size() * 4};
  const auto status = s.execute({&output, 1});
  ASSERT_TRUE(fails_with(status, "the call was cancelled before it began"));
  EXPECT_EQ(status.error().code, ErrorCode::cancelled);
  EXPECT_TRUE(fails_with(s.execute({&output, 1}), "the inputs must be set before every call"));
  EXPECT_EQ(first_of(run(s)), kSteps + 1) << "the state grew twice, not three times";
}

TEST_P(StopTest, a_call_cancelled_in_the_middle_says_that_the_state_may_be_changed) {
  Session& s = session(sums(true), one_by_one());
  {
    const Questions questions(1);
    EXPECT_TRUE(is_cancelled(run(s), "after 2 of its 41 dispatches: the session's state may be partly changed"));
  }
  EXPECT_EQ(first_of(run(s)), kSteps + 1) << "the first dispatch changed it";
  EXPECT_EQ(first_of(run(session(sums(true), one_by_one()))), kSteps) << "others begin anew";
}

TEST_P(StopTest, a_call_can_be_cancelled_by_any_thread) {
  Session& s = session(sums(), one_by_one());
  std::atomic<bool> is_done = false;
  std::atomic<int> cancelled = 0;
  int right = 0;
  {
    const std::jthread other([&] {
      while (!is_done) {
        if (cancelled < 3) s.cancel();
        std::this_thread::yield();
      }
    });
    while (cancelled < 3 || right < 3) {
      const auto out = run(s);
      if (out) {
        EXPECT_EQ(*out, kSums);
        ++right;
      } else {
        EXPECT_TRUE(is_cancelled(out, "the call was cancelled"));
        ++cancelled;
      }
    }
    is_done = true;
  }
}

constexpr std::string_view kBusy = "this session is busy: a stop check cannot use the session whose call asks it";

TEST_P(StopTest, a_check_cannot_run_the_model_that_asks_it) {
  const ProgramFile file(sums(true));
  const auto model = Model::load(device, file.path, staged_by_param(one_by_one()));
  ASSERT_TRUE(succeeds(model));
  const HostTensor input = tensor(DType::f32, {kSize}, kOnes);
  // The first call makes the session and asks for that as well.
  for (const float wanted : {0.F, 1.F}) {
    int asked = 0;
    const Acts acts([&] {
      ++asked;
      EXPECT_TRUE(fails_with(model->run({&input, 1}), kBusy));
    });
    const auto out = model->run({&input, 1});
    ASSERT_TRUE(succeeds(out));
    EXPECT_EQ(out->front().as<float>()[0], kSteps + wanted);
    EXPECT_GT(asked, 2);
  }
}

TEST_P(StopTest, a_check_cannot_use_the_session_that_asks_it) {
  Session& s = session(sums(), one_by_one());
  const Acts acts([&] { EXPECT_TRUE(fails_with(run(s), kBusy)); });
  EXPECT_TRUE(is_right(run(s)));
}

TEST_P(StopTest, a_check_may_cancel_the_model_that_asks_it) {
  const ProgramFile file(sums(true));
  const auto model = Model::load(device, file.path, staged_by_param(one_by_one()));
  ASSERT_TRUE(succeeds(model));
  const HostTensor input = tensor(DType::f32, {kSize}, kOnes);
  {
    const Acts acts([&] { model->cancel(); });
    const auto out = model->run({&input, 1});
    ASSERT_TRUE(fails_with(out, "the call was cancelled after 3 of its 41 dispatches"));
  }
  EXPECT_TRUE(succeeds(model->run({&input, 1})));
}

TEST_P(StopTest, a_check_cannot_run_the_model_of_the_c_api_that_asks_it) {
  const ProgramFile file(sums());
  nibble_device* one = nibble_device_open(nullptr, nullptr);
  ASSERT_NE(one, nullptr) << nibble_error();
  nibble_load_options options{};
  options.without_passes = "elementwise_chains,epilogues";
  options.max_batch_work = 1;
  options.staged = GetParam() ? 1 : 0;
  nibble_model* model = nibble_model_load(one, file.path.c_str(), &options);
  ASSERT_NE(model, nullptr) << nibble_error();
  nibble_tensor input{};
  input.dtype = NIBBLE_FLOAT32;
  input.rank = 1;
  input.shape[0] = kSize;
  std::vector<float> ones = kOnes;
  input.data = ones.data();
  input.bytes = ones.size() * sizeof(float);
  nibble_tensor output{};
  int asked = 0;
  {
    const Acts acts([&] {
      ++asked;
      nibble_tensor mine{};
      EXPECT_FALSE(nibble_model_run(model, &input, 1, &mine, 1));
      EXPECT_EQ(nibble_error(), kBusy);
    });
    ASSERT_TRUE(nibble_model_run(model, &input, 1, &output, 1)) << nibble_error();
  }
  EXPECT_GT(asked, 0);
  EXPECT_EQ(*static_cast<const float*>(output.data), kSteps);
  nibble_model_free(model);
  nibble_device_free(one);
}

TEST_P(StopTest, a_load_stops_while_it_is_planned_and_leaves_nothing) {
  // So many that it is asked in between; small programs are planned before anybody could ask.
  BlobBuilder many;
  const int x = many.tensor(DType::f32, {kSize});
  int y = x;
  for (int i = 0; i < 600; ++i) {
    const int next = many.tensor(DType::f32, {kSize});
    many.op("aten.add.Tensor", {y, x, many.integer(1), next});
    y = next;
  }
  many.inputs({x});
  many.outputs({y});
  const auto objects = device.live_objects();
  const auto compiled = device.compiled_pipelines();
  const Questions questions(1);
  const auto stopped = load(many, one_by_one());
  ASSERT_TRUE(fails_with(stopped, "loading was cancelled while the program was planned"));
  EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
  EXPECT_EQ(device.live_objects(), objects);
  EXPECT_EQ(device.compiled_pipelines(), compiled);
}

TEST_P(StopTest, a_load_stops_before_its_next_kernel_and_leaves_nothing) {
  const auto builder = embedding();
  ASSERT_TRUE(succeeds(load(builder)));
  const auto objects = device.live_objects();
  // At the kernel, and at the upload of each of the two constants.
  for (const int at : {1, 2, 3}) {
    const Questions questions(at);
    const auto stopped = load(builder);
    ASSERT_TRUE(fails_with(stopped, "loading was cancelled")) << at;
    EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
    EXPECT_EQ(device.live_objects(), objects);
  }
  EXPECT_TRUE(succeeds(load(builder)));
}

INSTANTIATE_TEST_SUITE_P(reads, StopTest, testing::Bool(), name_of_reads);

}  // namespace
}  // namespace nibble::test
