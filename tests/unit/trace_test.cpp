// Traces: what is recorded, where GPU times lie, and the file that viewers read.
#include <gtest/gtest.h>

#include <thread>

#include "api/json.hpp"
#include "gpu/tracer.hpp"
#include "nibble/nibble.hpp"
#include "support/expect.hpp"

namespace nibble {
namespace {

using namespace test;
using gpu::Phase;
using gpu::Tracer;

std::vector<std::string> traced_names(const Trace& trace) {
  std::vector<std::string> all;
  for (const auto& event : trace.events) all.push_back(event.name);
  return all;
}

/// What is written of a trace, as a viewer reads it.
Json read_by_viewer(const Trace& trace) {
  const auto text = chrome_trace(trace);
  EXPECT_TRUE(succeeds(text));
  const auto json = Json::parse(*text);
  EXPECT_TRUE(succeeds(json)) << *text;
  return json.value_or(Json());
}

const Json::Array& trace_events(const Json& json) { return *json.find("traceEvents")->as<Json::Array>(); }

const std::string& member_text(const Json& event, std::string_view name) {
  return *event.find(name)->as<std::string>();
}

TEST(Trace, phases_nest_and_come_in_the_order_of_their_start) {
  Tracer tracer;
  ASSERT_TRUE(succeeds(tracer.start()));
  {
    const Phase load(tracer, "load");
    Phase part(tracer, "read");
    part.next("plan");
    part.end();
    const Phase compile(tracer, "compile", "softmax");
  }
  {
    const Phase later(tracer, "wait");
  }
  const auto trace = tracer.stop();
  ASSERT_TRUE(succeeds(trace));
  EXPECT_EQ(traced_names(*trace), (std::vector<std::string>{"load", "read", "plan", "compile", "wait"}));
  const auto& load = trace->events.front();
  for (std::size_t i = 1; i < 4; ++i) {
    const auto& inner = trace->events[i];
    EXPECT_GE(inner.start, load.start) << inner.name;
    EXPECT_LE(inner.start + inner.duration, load.start + load.duration) << inner.name;
  }
  EXPECT_LE(trace->events[1].start + trace->events[1].duration, trace->events[2].start);
  EXPECT_GE(load.start, 0);
  EXPECT_EQ(trace->events[3].kernel, "softmax");
  EXPECT_EQ(trace->dropped, 0U);
}

TEST(Trace, only_what_begins_and_ends_within_it_is_recorded) {
  Tracer tracer;
  {
    const Phase nobody_looks(tracer, "before");
  }
  {
    const Phase begun_before(tracer, "half before");
    ASSERT_TRUE(succeeds(tracer.start()));
    tracer.add_phase("began before", {}, gpu::now_us() - 1e6, gpu::now_us());
  }
  {
    const Phase inside(tracer, "inside");
  }
  {
    const Phase too_long(tracer, "half after");
    const auto trace = tracer.stop();
    ASSERT_TRUE(succeeds(trace));
    EXPECT_EQ(traced_names(*trace), std::vector<std::string>{"inside"});
    ASSERT_TRUE(succeeds(tracer.start()));
  }
  const auto second = tracer.stop();
  ASSERT_TRUE(succeeds(second));
  EXPECT_TRUE(second->events.empty()) << "a phase of the trace before is no part of this one";
}

TEST(Trace, a_device_has_one_trace_at_a_time) {
  Tracer tracer;
  EXPECT_TRUE(fails_with(tracer.stop(), "this device is not being traced"));
  ASSERT_TRUE(succeeds(tracer.start()));
  EXPECT_TRUE(fails_with(tracer.start(), "this device is being traced already"));
  ASSERT_TRUE(succeeds(tracer.stop()));
  EXPECT_TRUE(succeeds(tracer.start()));
}

TEST(Trace, dispatches_that_seem_to_begin_at_once_stay_in_their_order) {
  Tracer tracer;
  ASSERT_TRUE(succeeds(tracer.start()));
  std::vector<DispatchTime> times(100);
  const double now = gpu::now_us();
  for (std::uint32_t i = 0; i < times.size(); ++i) times[i] = {"op", "kernel", 0, i, now};
  tracer.add_dispatches(times);
  const auto trace = tracer.stop();
  ASSERT_TRUE(succeeds(trace));
  ASSERT_EQ(trace->events.size(), times.size());
  for (std::uint32_t i = 0; i < times.size(); ++i) EXPECT_EQ(trace->events[i].node, i);
}

TEST(Trace, threads_of_the_host_are_told_apart) {
  Tracer tracer;
  ASSERT_TRUE(succeeds(tracer.start()));
  {
    const Phase first(tracer, "here");
  }
  std::thread([&] { const Phase second(tracer, "there"); }).join();
  {
    const Phase again(tracer, "here again");
  }
  const auto trace = tracer.stop();
  ASSERT_TRUE(succeeds(trace));
  ASSERT_EQ(trace->events.size(), 3U);
  EXPECT_EQ(trace->events[0].thread, 1U);
  EXPECT_EQ(trace->events[1].thread, 2U);
  EXPECT_EQ(trace->events[2].thread, 1U);
}

TEST(Trace, what_there_is_no_room_for_is_counted) {
  constexpr std::size_t kMost = 100;
  Tracer tracer(kMost);
  ASSERT_TRUE(succeeds(tracer.start()));
  const double now = gpu::now_us();
  for (std::size_t i = 0; i < kMost + 3; ++i) tracer.add_phase("a", {}, now, now);
  const auto trace = tracer.stop();
  ASSERT_TRUE(succeeds(trace));
  EXPECT_EQ(trace->events.size(), kMost);
  EXPECT_EQ(trace->dropped, 3U);
}

TEST(Trace, gpu_times_lie_between_submission_and_end) {
  Tracer tracer;
  // Nothing is known yet: the first dispatch began when it was submitted.
  EXPECT_EQ(tracer.offset(1000, 1010, 50, 100), 50 - 1000);
  // A later call began 5 after it was submitted, if the first one told the truth.
  EXPECT_EQ(tracer.offset(1115, 1120, 160, 190), 50 - 1000);
  // It cannot have begun before it was submitted, nor be done after the host saw its end.
  EXPECT_EQ(tracer.offset(1200, 1210, 260, 290), 260 - 1200);
  EXPECT_EQ(tracer.offset(1300, 1330, 350, 385), 385 - 1330);
  // Clocks that contradict each other.
  EXPECT_EQ(tracer.offset(1400, 1500, 460, 500), 460 - 1400);
}

TEST(Trace, a_file_has_a_thread_for_the_host_and_one_for_the_gpu) {
  const Trace trace{.events = {{"submit", "", 0, 1, 10, 30.25},
                               {"aten.add.Tensor", "add f32", 7, 0, 12.5, 20},
                               {"plan", "", 0, 2, 14, 1}},
                    .dropped = 4};
  const Json json = read_by_viewer(trace);
  const auto& events = trace_events(json);
  ASSERT_EQ(events.size(), 7U);
  EXPECT_EQ(member_text(events[0], "name"), "process_name");
  std::vector<std::string> threads;
  for (std::size_t i = 1; i < 4; ++i) threads.push_back(member_text(*events[i].find("args"), "name"));
  EXPECT_EQ(threads, (std::vector<std::string>{"host", "GPU", "host 2"}));
  EXPECT_EQ(member_text(events[4], "ph"), "X");
  EXPECT_EQ(member_text(events[4], "name"), "submit");
  EXPECT_EQ(events[4].find("dur")->number(), 30.25);
  EXPECT_EQ(events[4].find("args"), nullptr);
  EXPECT_EQ(member_text(events[5], "name"), "aten.add.Tensor");
  EXPECT_EQ(events[5].find("ts")->number(), 12.5);
  EXPECT_EQ(member_text(*events[5].find("args"), "kernel"), "add f32");
  EXPECT_EQ(events[5].find("args")->find("node")->number(), 7);
  // An event belongs to the thread that was named.
  EXPECT_EQ(events[5].find("tid")->number(), events[2].find("tid")->number());
  EXPECT_NE(events[4].find("tid")->number(), events[5].find("tid")->number());
  EXPECT_EQ(json.find("otherData")->find("dropped")->number(), 4);
}

TEST(Trace, names_that_json_cannot_hold_are_escaped) {
  const std::string name = "a\"b\\c\nd\x01";
  const Json json = read_by_viewer({.events = {{name, "k\"", 0, 0, 0, 0}, {"broken \xff", "", 0, 1, 0, 0}}});
  const auto& events = trace_events(json);
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(member_text(events[3], "name"), name);
  EXPECT_EQ(member_text(*events[3].find("args"), "kernel"), "k\"");
  EXPECT_EQ(member_text(events[4], "name"), "broken \ufffd");
}

TEST(Trace, an_empty_one_is_a_file_as_well) {
  const Json json = read_by_viewer({});
  EXPECT_EQ(trace_events(json).size(), 1U);
}

}  // namespace
}  // namespace nibble
