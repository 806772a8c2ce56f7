// A call in two halves: what is handed to the GPU, and what is waited for.
#include <array>
#include <thread>

#include "api/capi.hpp"
#include "gpu_fixture.hpp"

namespace nibble::test {
namespace {

constexpr std::int64_t kLength = 64;
constexpr int kAdds = 20;

/// The sum grows by x; the result is the sum and x, kAdds times.
BlobBuilder running_sum() {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {kLength});
  int y = b.constant(DType::f32, {kLength}, std::vector<float>(kLength), {.mem_obj = 0});
  b.op("aten.add.Tensor", {y, x, b.integer(1), y});
  for (int i = 0; i < kAdds; ++i) {
    const int next = b.tensor(DType::f32, {kLength});
    b.op("aten.add.Tensor", {y, x, b.integer(1), next});
    y = next;
  }
  b.inputs({x});
  b.outputs({y});
  return b;
}

LoadOptions in_batches() { return {{.without_passes = {"elementwise_chains", "epilogues"}, .max_batch_work = 1}}; }

class SubmitTest : public BothReadsTest {
 protected:
  Status set(Session& s) {
    const HostTensor input = tensor(DType::f32, {kLength}, ones);
    return s.set_inputs({&input, 1});
  }
  HostOutput output() { return {DType::f32, out.data(), out.size() * 4}; }
  Status submit(Session& s) {
    TRY(set(s));
    const HostOutput to = output();
    return s.submit({&to, 1});
  }

  const std::vector<float> ones = std::vector<float>(kLength, 1);
  std::vector<float> out = std::vector<float>(kLength);
};

TEST_P(SubmitTest, submitting_and_waiting_is_a_call) {
  for (const auto& options : {LoadOptions{}, in_batches()}) {
    Session& s = session(running_sum(), options);
    for (int i = 1; i <= 3; ++i) {
      ASSERT_TRUE(succeeds(submit(s)));
      ASSERT_TRUE(succeeds(s.wait()));
      EXPECT_EQ(out.front(), kAdds + i);
      EXPECT_EQ(out.back(), kAdds + i);
    }
  }
}

TEST_P(SubmitTest, submitting_does_not_wait_for_the_last_batch) {
  auto& gpu = *Internals::of(device)->gpu;
  Session& s = session(running_sum());
  const auto before = gpu.waits();
  ASSERT_TRUE(succeeds(submit(s)));
  EXPECT_EQ(gpu.waits(), before);
  ASSERT_TRUE(succeeds(s.wait()));
  EXPECT_EQ(gpu.waits(), before + 1);
}

TEST_P(SubmitTest, nothing_else_begins_while_a_call_is_in_flight) {
  constexpr std::string_view kInFlight = "a call of this session is in flight: wait for it first";
  Session& s = session(running_sum());
  const HostTensor input = tensor(DType::f32, {kLength}, ones);
  const HostOutput to = output();
  ASSERT_TRUE(succeeds(submit(s)));
  EXPECT_TRUE(fails_with(set(s), kInFlight));
  EXPECT_TRUE(fails_with(s.submit({&to, 1}), kInFlight));
  EXPECT_TRUE(fails_with(s.execute({&to, 1}), kInFlight));
  EXPECT_TRUE(fails_with(s.profile({&to, 1}), device.info().timestamp_query ? kInFlight : "timestamp"));
  EXPECT_TRUE(fails_with(s.run({&input, 1}), kInFlight));
  EXPECT_EQ(s.output_shape(0), (Shape{kLength}));
  EXPECT_TRUE(succeeds(s.states()));
  EXPECT_TRUE(succeeds(s.wait()));
  EXPECT_EQ(out.front(), kAdds + 1);
  EXPECT_TRUE(fails_with(s.wait(), "no call of this session is in flight: submit one first"));
  EXPECT_TRUE(fails_with(s.submit({&to, 1}), "the inputs must be set before every call"));
  ASSERT_TRUE(succeeds(set(s)));
  EXPECT_TRUE(fails_with(s.wait(), "no call of this session is in flight"));
  EXPECT_TRUE(succeeds(s.execute({&to, 1}))) << "what was refused changed nothing";
  EXPECT_EQ(out.front(), kAdds + 2);
}

TEST_P(SubmitTest, any_thread_may_wait) {
  Session& s = session(running_sum());
  ASSERT_TRUE(succeeds(submit(s)));
  std::thread([&] { EXPECT_TRUE(succeeds(s.wait())); }).join();
  EXPECT_EQ(out.front(), kAdds + 1);
}

TEST_P(SubmitTest, cancelling_is_told_by_the_half_that_hears_it) {
  Session& s = session(running_sum(), in_batches());
  ASSERT_TRUE(succeeds(set(s)));
  s.cancel();
  const HostOutput to = output();
  EXPECT_TRUE(fails_with(s.submit({&to, 1}), "the call was cancelled before it began"));
  EXPECT_TRUE(fails_with(s.wait(), "no call of this session is in flight"));
  ASSERT_TRUE(succeeds(submit(s)));
  s.cancel();
  const auto waited = s.wait();
  ASSERT_TRUE(fails_with(waited, "the call was cancelled when it was done: the session's state is changed"));
  EXPECT_EQ(waited.error().code, ErrorCode::cancelled);
  ASSERT_TRUE(succeeds(submit(s)));
  ASSERT_TRUE(succeeds(s.wait()));
  EXPECT_EQ(out.front(), kAdds + 2);
}

TEST_P(SubmitTest, a_fault_is_told_when_it_is_waited_for) {
  BlobBuilder b;
  const int ids = b.tensor(DType::i32, {1, 3});
  const int one = b.constant(DType::i32, {1}, std::vector<std::int32_t>{1});
  const int next = b.tensor(DType::i32, {1, 3});
  b.op("aten.add.Tensor", {ids, one, b.integer(1), next});
  const int rows = add_embedding(b, next, {1, 3});
  b.inputs({ids});
  b.outputs({rows});
  Session& s = session(b);
  std::vector<float> result(3 * kWidth);
  const HostOutput to{DType::f32, result.data(), result.size() * 4};
  const auto begin = [&](const std::vector<std::int64_t>& given) -> Status {
    const HostTensor input = tensor(DType::i64, {1, 3}, given);
    TRY(s.set_inputs({&input, 1}));
    return s.submit({&to, 1});
  };
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(succeeds(begin({1, 49, 2})));
    EXPECT_TRUE(fails_with(s.wait(), "is 50, but the table has 50 rows"));
    ASSERT_TRUE(succeeds(begin({0, 1, 2})));
    ASSERT_TRUE(succeeds(s.wait()));
    EXPECT_TRUE(are_rows(result, std::vector<std::int64_t>{1, 2, 3}));
  }
}

TEST_P(SubmitTest, a_session_that_goes_with_a_call_in_flight_leaves_nothing) {
  const auto objects = device.live_objects();
  for (const auto& options : {LoadOptions{}, in_batches()}) {
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(succeeds(submit(session(running_sum(), options))));
      loaded.reset();
      EXPECT_EQ(device.live_objects(), objects);
    }
  }
  Session& s = session(running_sum());
  ASSERT_TRUE(succeeds(submit(s)));
  ASSERT_TRUE(succeeds(s.wait()));
  EXPECT_EQ(out.front(), kAdds + 1);
}

TEST_P(SubmitTest, a_device_that_is_lost_in_between_is_the_error) {
  Session& s = session(running_sum());
  ASSERT_TRUE(succeeds(submit(s)));
  Internals::of(device)->gpu->destroy_for_test();
  EXPECT_TRUE(fails_with(load(running_sum()), "is lost")) << "who notices it first";
  const auto waited = s.wait();
  ASSERT_TRUE(fails_with(waited, "is lost"));
  EXPECT_EQ(waited.error().code, ErrorCode::device_lost);
  EXPECT_TRUE(fails_with(submit(s), "is lost"));
  EXPECT_TRUE(fails_with(s.wait(), "no call of this session is in flight"));
}

TEST_P(SubmitTest, a_session_with_a_call_in_flight_goes_with_a_lost_device) {
  ASSERT_TRUE(succeeds(submit(session(running_sum()))));
  Internals::of(device)->gpu->destroy_for_test();
  loaded.reset();
  EXPECT_TRUE(fails_with(load(running_sum()), "is lost"));
}

TEST_P(SubmitTest, calls_of_two_sessions_are_in_flight_at_once) {
  Session& s = session(running_sum());
  auto other = load(running_sum());
  ASSERT_TRUE(succeeds(other));
  std::vector<float> theirs(kLength);
  const HostOutput to{DType::f32, theirs.data(), theirs.size() * 4};
  ASSERT_TRUE(succeeds(submit(s)));
  ASSERT_TRUE(succeeds(set(other->session)));
  ASSERT_TRUE(succeeds(other->session.submit({&to, 1})));
  ASSERT_TRUE(succeeds(s.wait()));
  ASSERT_TRUE(succeeds(other->session.wait()));
  EXPECT_EQ(out, theirs);
}

TEST_P(SubmitTest, the_c_api_has_both_halves) {
  EXPECT_FALSE(nibble_session_submit(nullptr, nullptr, 0));
  EXPECT_STREQ(nibble_error(), "the session is null");
  EXPECT_FALSE(nibble_session_wait(nullptr));
  auto own = load(running_sum());
  ASSERT_TRUE(succeeds(own));
  nibble_session session{own->model, own->session, {}, {}, {}, {}};
  nibble_tensor input{};
  std::vector<float> given = ones;
  input.dtype = NIBBLE_FLOAT32;
  input.rank = 1;
  input.shape[0] = kLength;
  input.data = given.data();
  input.bytes = given.size() * 4;
  ASSERT_TRUE(nibble_session_set_inputs(&session, &input, 1)) << nibble_error();
  nibble_tensor result = input;
  result.data = out.data();
  ASSERT_TRUE(nibble_session_submit(&session, &result, 1)) << nibble_error();
  result = {};
  EXPECT_FALSE(nibble_session_set_inputs(&session, &input, 1));
  EXPECT_STREQ(nibble_error(), "a call of this session is in flight: wait for it first");
  ASSERT_TRUE(nibble_session_wait(&session)) << nibble_error();
  EXPECT_EQ(out.front(), kAdds + 1);
}

INSTANTIATE_TEST_SUITE_P(reads, SubmitTest, testing::Bool(), name_of_reads);

}  // namespace
}  // namespace nibble::test
