// Traces of loads and calls on a device.
#include <unistd.h>

#include <array>
#include <filesystem>
#include <thread>

#include "api/json.hpp"
#include "api/session.hpp"
#include "cli/trace_file.hpp"
#include "gpu_fixture.hpp"
#include "nibble/nibble.h"

namespace nibble::test {
namespace {

constexpr std::int64_t kTracedLength = 4096;
constexpr std::size_t kTracedAdds = 12;

/// x and x, again and again: a dispatch for each.
BlobBuilder traced_sums() {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {kTracedLength});
  int y = x;
  for (std::size_t i = 0; i < kTracedAdds; ++i) {
    const int next = b.tensor(DType::f32, {kTracedLength});
    b.op("aten.add.Tensor", {y, x, b.integer(1), next});
    y = next;
  }
  b.inputs({x});
  b.outputs({y});
  return b;
}

LoadOptions op_by_op() { return {{.without_passes = {"elementwise_chains", "epilogues"}}}; }
LoadOptions in_small_batches() {
  auto options = op_by_op();
  options.max_batch_work = 1;
  return options;
}

class TraceTest : public LoadedTest {
 protected:
  Status run(Session& s) {
    TRY_ASSIGN(const auto results, s.run(std::array{tensor(DType::f32, {kTracedLength}, ones)}));
    const float first = results.front().as<float>().front();
    if (first != kTracedAdds + 1) return fail(ErrorCode::internal, "the sum is {}", first);
    return {};
  }
  /// Of calls since start_trace().
  Trace stop() {
    auto trace = device.stop_trace();
    EXPECT_TRUE(succeeds(trace));
    return trace.value_or(Trace());
  }
  static std::vector<TraceEvent> named(const Trace& trace, std::string_view name) {
    std::vector<TraceEvent> found;
    for (const auto& event : trace.events)
      if (event.name == name) found.push_back(event);
    return found;
  }
  static std::vector<TraceEvent> of_gpu(const Trace& trace) {
    std::vector<TraceEvent> found;
    for (const auto& event : trace.events)
      if (event.thread == 0) found.push_back(event);
    return found;
  }
  /// On the clock that is right to a nanosecond, what ends when another begins may seem to end a little later.
  static constexpr double kRounding = 0.01;

  const std::vector<float> ones = std::vector<float>(kTracedLength, 1);
};

TEST_F(TraceTest, a_load_tells_its_phases) {
  ASSERT_TRUE(succeeds(device.start_trace()));
  session(traced_sums());
  const Trace trace = stop();
  const auto load = named(trace, "load");
  ASSERT_EQ(load.size(), 1U);
  for (const auto* name : {"read", "plan", "compile", "upload", "make session"}) {
    const auto phases = named(trace, name);
    ASSERT_FALSE(phases.empty()) << name;
    for (const auto& phase : phases) {
      EXPECT_EQ(phase.thread, 1U);
      EXPECT_GE(phase.start, load[0].start) << name;
      EXPECT_LE(phase.start + phase.duration, load[0].start + load[0].duration + kRounding) << name;
    }
  }
  EXPECT_FALSE(named(trace, "compile")[0].kernel.empty());
  EXPECT_TRUE(of_gpu(trace).empty());
}

TEST_F(TraceTest, a_call_tells_its_phases_and_every_dispatch) {
  for (const auto& options : {op_by_op(), in_small_batches()}) {
    Session& s = session(traced_sums(), options);
    ASSERT_TRUE(succeeds(run(s)));
    ASSERT_TRUE(succeeds(device.start_trace()));
    constexpr std::size_t kCalls = 3;
    for (std::size_t i = 0; i < kCalls; ++i) ASSERT_TRUE(succeeds(run(s)));
    const Trace trace = stop();
    for (const auto* name : {"check inputs", "plan", "upload inputs", "read back"}) {
      EXPECT_EQ(named(trace, name).size(), kCalls) << name;
    }
    const auto encoded = named(trace, "encode");
    const auto submitted = named(trace, "submit");
    const auto waited = named(trace, "wait");
    ASSERT_EQ(submitted.size(), encoded.size());
    const auto gpu = of_gpu(trace);
    if (!device.info().timestamp_query) {
      EXPECT_TRUE(gpu.empty());
      continue;
    }
    const auto dispatches = Internals::of(s)->executor->stepper().dispatches();
    ASSERT_GE(dispatches.size(), kTracedAdds);
    ASSERT_EQ(gpu.size(), kCalls * dispatches.size());
    const std::size_t batches = submitted.size() / kCalls;
    ASSERT_EQ(batches, options.max_batch_work == 1 ? dispatches.size() : 1);
    for (std::size_t call = 0; call < kCalls; ++call) {
      const double begin = submitted[call * batches].start;
      const auto& last = *std::ranges::find_if(waited.rbegin(), waited.rend(), [&](const TraceEvent& wait) {
        return call + 1 == kCalls || wait.start < submitted[(call + 1) * batches].start;
      });
      for (std::size_t i = 0; i < dispatches.size(); ++i) {
        const auto& event = gpu[call * dispatches.size() + i];
        EXPECT_EQ(event.name, "aten.add.Tensor");
        EXPECT_EQ(event.node, dispatches[i]->node);
        EXPECT_FALSE(event.kernel.empty());
        EXPECT_GE(event.duration, 0);
        EXPECT_GE(event.start, begin - kRounding) << "call " << call << ", dispatch " << i;
        EXPECT_LE(event.start + event.duration, last.start + last.duration + kRounding)
            << "call " << call << ", dispatch " << i;
      }
    }
  }
}

TEST_F(TraceTest, phases_of_a_thread_do_not_overlap) {
  ASSERT_TRUE(succeeds(device.start_trace()));
  Session& s = session(traced_sums(), in_small_batches());
  ASSERT_TRUE(succeeds(run(s)));
  ASSERT_TRUE(succeeds(run(s)));
  const Trace trace = stop();
  std::vector<TraceEvent> open;
  for (const auto& event : trace.events) {
    if (event.thread != 1) continue;
    while (!open.empty() && open.back().start + open.back().duration <= event.start + kRounding) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(event.start + event.duration, open.back().start + open.back().duration + kRounding)
          << event.name << " in " << open.back().name;
    }
    open.push_back(event);
  }
}

TEST_F(TraceTest, a_call_in_two_halves_is_traced_and_a_later_one_is_as_before) {
  Session& s = session(traced_sums(), op_by_op());
  std::vector<float> out(kTracedLength);
  const HostOutput to{DType::f32, out.data(), out.size() * 4};
  const HostTensor input = tensor(DType::f32, {kTracedLength}, ones);
  const auto call = [&]() -> Status {
    TRY(s.set_inputs({&input, 1}));
    TRY(s.submit({&to, 1}));
    return s.wait();
  };
  ASSERT_TRUE(succeeds(call()));
  const auto objects = device.live_objects();
  ASSERT_TRUE(succeeds(device.start_trace()));
  ASSERT_TRUE(succeeds(call()));
  // What is submitted within a trace and waited for after it is a call like any other.
  ASSERT_TRUE(succeeds(s.set_inputs({&input, 1})));
  ASSERT_TRUE(succeeds(s.submit({&to, 1})));
  const Trace trace = stop();
  ASSERT_TRUE(succeeds(s.wait()));
  EXPECT_EQ(out.back(), kTracedAdds + 1);
  EXPECT_EQ(of_gpu(trace).size(), device.info().timestamp_query ? kTracedAdds : 0);
  ASSERT_TRUE(succeeds(call()));
  EXPECT_EQ(device.live_objects(), objects) << "what only a trace needs is gone";
}

TEST_F(TraceTest, sessions_of_several_threads_are_recorded) {
  session(traced_sums(), op_by_op());
  ASSERT_TRUE(succeeds(device.start_trace()));
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        auto own = loaded->model.session();
        ASSERT_TRUE(succeeds(own));
        for (int n = 0; n < 3; ++n) EXPECT_TRUE(succeeds(run(*own)));
      });
    }
  }
  const Trace trace = stop();
  EXPECT_EQ(named(trace, "read back").size(), 6U);
  EXPECT_EQ(of_gpu(trace).size(), device.info().timestamp_query ? 6 * kTracedAdds : 0);
  std::vector<std::uint32_t> threads;
  for (const auto& event : named(trace, "plan")) threads.push_back(event.thread);
  std::ranges::sort(threads);
  EXPECT_EQ(threads, (std::vector<std::uint32_t>{1, 1, 1, 2, 2, 2}));
}

TEST_F(TraceTest, without_timestamps_only_the_host_is_traced_and_the_command_says_so) {
  Session& s = session(traced_sums(), op_by_op());
  auto& impl = *Internals::of(device);
  auto& profile = const_cast<DeviceProfile&>(impl.gpu->profile());
  const bool had = std::exchange(profile.timestamp_query, false);
  impl.info.timestamp_query = false;
  const std::string path = std::filesystem::temp_directory_path() / fmt::format("nibble_trace_{}.json", getpid());
  cli::TraceFile file;
  ASSERT_TRUE(succeeds(file.create(path)));
  testing::internal::CaptureStderr();
  EXPECT_TRUE(succeeds(file.start(device)));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said, fmt::format("nibble: {} has no timestamp queries, so the trace has the host's work only\n",
                              device.info().name));
  EXPECT_TRUE(succeeds(run(s)));
  const Trace trace = stop();
  EXPECT_EQ(named(trace, "read back").size(), 1U);
  EXPECT_TRUE(of_gpu(trace).empty());
  ASSERT_TRUE(succeeds(device.start_trace()));
  EXPECT_TRUE(succeeds(file.finish()));
  EXPECT_TRUE(std::filesystem::remove(path));
  profile.timestamp_query = impl.info.timestamp_query = had;
}

TEST_F(TraceTest, the_c_api_gives_the_file) {
  auto* native = nibble_device_open(nullptr, nullptr);
  ASSERT_NE(native, nullptr);
  EXPECT_EQ(nibble_device_start_trace(nullptr), nullptr);
  EXPECT_EQ(nibble_trace_stop(nullptr), nullptr);
  auto* trace = nibble_device_start_trace(native);
  ASSERT_NE(trace, nullptr);
  EXPECT_EQ(nibble_device_start_trace(native), nullptr);
  EXPECT_STREQ(nibble_error(), "this device is being traced already");
  session(traced_sums());
  const char* text = nibble_trace_stop(trace);
  ASSERT_NE(text, nullptr);
  EXPECT_EQ(nibble_trace_stop(trace), nullptr);
  EXPECT_STREQ(nibble_error(), "this trace has ended already");

  // Another trace, and the end of the device, leave the text as it is.
  auto* other = nibble_device_start_trace(native);
  ASSERT_NE(other, nullptr);
  nibble_device_free(native);
  EXPECT_NE(nibble_trace_stop(other), text);
  nibble_trace_free(other);
  const auto json = Json::parse(text);
  ASSERT_TRUE(succeeds(json));
  EXPECT_GT(json->find("traceEvents")->as<Json::Array>()->size(), 5U) << "it is the device that others have opened";
  nibble_trace_free(trace);
}

TEST_F(TraceTest, to_free_one_of_the_c_api_ends_it_and_no_other) {
  auto* native = nibble_device_open(nullptr, nullptr);
  ASSERT_NE(native, nullptr);
  auto* stopped = nibble_device_start_trace(native);
  ASSERT_NE(nibble_trace_stop(stopped), nullptr);
  auto* dropped = nibble_device_start_trace(native);
  ASSERT_NE(dropped, nullptr);
  nibble_trace_free(stopped);
  EXPECT_EQ(nibble_device_start_trace(native), nullptr) << "the second one goes on";
  nibble_trace_free(dropped);
  auto* next = nibble_device_start_trace(native);
  EXPECT_NE(next, nullptr);
  nibble_trace_free(next);
  nibble_trace_free(nullptr);
  nibble_device_free(native);
}

}  // namespace
}  // namespace nibble::test
