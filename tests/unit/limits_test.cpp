// What a small file can make large is paid for: each class of such files is refused, or takes a bounded multiple of its
// bytes. And the limits that a caller sets.
#include <gtest/gtest.h>

#include <numeric>

#include "program/blob.hpp"
#include "schema_generated.h"
#include "support/expect.hpp"
#include "support/named_data.hpp"
#include "support/planning.hpp"

namespace nibble {
namespace {

using namespace test;

constexpr std::string_view kOverdrawn = "add up to more than 8 times";

Result<Graph> read_large(const BlobBuilder& b) { return read_blob(b.finish(), sizes_of(b)); }

/// A list of `items` tensors that `nodes` nodes concatenate, and a tensor.
BlobBuilder shared_tensors(std::size_t items, int nodes) {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {1});
  const int zero = b.integer(0);
  const int list = b.list(std::vector<std::int32_t>(items, x));
  for (int i = 0; i < nodes; ++i) {
    const int out = b.tensor(DType::f32, {static_cast<std::uint32_t>(items)});
    b.op("aten.cat.default", {list, zero, out});
    if (i == 0) b.outputs({out});
  }
  b.inputs({x});
  return b;
}

TEST(Budget, each_use_of_a_shared_list_is_paid) {
  EXPECT_TRUE(fails_with(read_large(shared_tensors(20000, 1000)), kOverdrawn));
  EXPECT_TRUE(succeeds(read_large(shared_tensors(20000, 4))));
}

TEST(Budget, each_use_of_shared_numbers_and_texts_is_paid) {
  const auto with = [](auto add) {
    BlobBuilder b;
    const int x = b.tensor(DType::f32, {1});
    const int large = add(b);
    for (int i = 0; i < 1000; ++i) b.op("aten.view_copy.default", {x, large, x});
    return read_large(b);
  };
  EXPECT_TRUE(fails_with(with([](BlobBuilder& b) { return b.ints(std::vector<std::int64_t>(20000)); }), kOverdrawn));
  EXPECT_TRUE(fails_with(with([](BlobBuilder& b) { return b.numbers(std::vector<double>(20000)); }), kOverdrawn));
  EXPECT_TRUE(fails_with(with([](BlobBuilder& b) { return b.booleans(std::vector<bool>(90000)); }), kOverdrawn));
  EXPECT_TRUE(fails_with(with([](BlobBuilder& b) { return b.text(std::string(90000, 'x')); }), kOverdrawn));
  EXPECT_TRUE(succeeds(with([](BlobBuilder& b) { return b.ints(std::vector<std::int64_t>(8)); })));
}

TEST(Budget, a_list_of_lists_is_paid_with_what_those_hold) {
  for (const bool is_used : {true, false}) {
    BlobBuilder b;
    const int x = b.tensor(DType::f32, {1});
    const int inner = b.list(std::vector<std::int32_t>(20000, x));
    const int outer = b.list(std::vector<std::int32_t>(20000, inner));
    b.op("aten.cat.default", {is_used ? outer : x, x, x});
    EXPECT_EQ(read_large(b).has_value(), !is_used);
  }
}

/// Values that are all one table of the file.
TEST(Budget, each_value_is_paid) {
  flatbuffers::FlatBufferBuilder fb;
  const auto value = vkgraph::CreateVkValue(fb, vkgraph::GraphTypes::Null, vkgraph::CreateNull(fb).Union());
  const auto values = fb.CreateVector(std::vector(20000, value));
  // Bytes that hold no table, or else the FlatBuffers verifier finds too many.
  const auto inputs = fb.CreateVector(std::vector<std::uint32_t>(22000));
  vkgraph::FinishVkGraphBuffer(fb, vkgraph::CreateVkGraph(fb, 0, 0, values, inputs));
  constexpr std::size_t kHead = 32;
  Bytes blob(kHead + fb.GetSize());
  const auto put = [&](std::size_t at, auto number) { std::memcpy(blob.data() + at, &number, sizeof(number)); };
  std::memcpy(blob.data() + 4, "VH00", 4);
  put(8, std::uint16_t{30});
  put(10, static_cast<std::uint32_t>(kHead));
  put(14, static_cast<std::uint32_t>(fb.GetSize()));
  put(18, static_cast<std::uint32_t>(blob.size()));
  std::memcpy(blob.data() + kHead, fb.GetBufferPointer(), fb.GetSize());
  EXPECT_TRUE(fails_with(read_blob(blob, sizes_of(BlobBuilder())), kOverdrawn));
}

/// What loads of a blob of a few hundred kilobytes may keep, in bytes per byte.
void expect_modest(const BlobBuilder& b) {
  const auto blob = b.finish();
  ASSERT_GT(blob.size(), 100'000U);
  auto graph = read_blob(blob, sizes_of(b));
  ASSERT_TRUE(succeeds(graph));
  const auto plan = Plan::make(std::move(*graph), {}, {}, ops::registry());
  ASSERT_TRUE(succeeds(plan));
  EXPECT_LT((*plan)->ledger().host.paid(), 128 * blob.size());
}

TEST(Budget, many_values_take_a_multiple_of_the_file) {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {4});
  for (int i = 0; i < 6000; ++i) b.integer(i);
  b.inputs({x});
  b.outputs({x});
  expect_modest(b);
}

TEST(Budget, many_outputs_take_a_multiple_of_the_file) {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {4});
  b.inputs({x});
  b.outputs(std::vector<std::uint32_t>(50000, static_cast<std::uint32_t>(x)));
  expect_modest(b);
}

TEST(Budget, one_long_list_takes_a_multiple_of_the_file) { expect_modest(shared_tensors(25000, 1)); }

TEST(Budget, many_pipelines_are_paid_with_their_text) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {1, 4}));
  for (int i = 0; i < 40; ++i) {
    const auto out = b.tensor(DType::f32, {1, 4});
    b.op("aten.leaky_relu.default", {x, b.number(i), out});
    b.output(out);
  }
  const auto plan = Plan::make(b.graph, {}, {}, ops::registry());
  ASSERT_TRUE(succeeds(plan));
  std::uint64_t text = 0;
  for (const auto& pipeline : (*plan)->layout().pipelines) text += pipeline.wgsl.size();
  EXPECT_GT((*plan)->ledger().host.paid(), text);
}

GraphBuilder three_sums(Shape shape) {
  GraphBuilder b;
  auto x = b.input(b.tensor(DType::f32, shape));
  for (int i = 0; i < 3; ++i) {
    x = b.add(x, x, shape);
    b.output(x);
  }
  return b;
}

/// The limit that a program just keeps, and the sentence that it gets for one less.
void expect_limit(std::uint64_t Options::* limit, std::uint64_t taken, std::string_view what, std::string_view option) {
  const auto b = three_sums({1024});
  Options options;
  options.*limit = taken;
  EXPECT_TRUE(succeeds(Plan::make(b.graph, {}, options, ops::registry()))) << option;
  options.*limit = taken - 1;
  EXPECT_TRUE(fails_with(
      Plan::make(b.graph, {}, options, ops::registry()),
      fmt::format("the program takes at least {} {}, but the option {} allows {}", taken, what, option, taken - 1)));
  EXPECT_EQ(Plan::refusals(b.graph, {}, options, ops::registry()).all.size(), 1U) << option;
}

TEST(Limits, a_program_beyond_one_is_refused_with_both_numbers) {
  const auto plan = make(three_sums({1024}));
  ASSERT_TRUE(succeeds(plan));
  const auto& ledger = (*plan)->ledger();
  EXPECT_EQ(ledger.nodes.paid(), 3U);
  EXPECT_EQ(ledger.dispatches.paid(), (*plan)->layout().max_dispatches);
  const auto& layout = (*plan)->layout();
  const auto buffers = std::accumulate(layout.buffers.begin(), layout.buffers.end(), std::uint64_t{0},
                                       [](auto sum, const BufferDesc& buffer) { return sum + buffer.bytes; });
  EXPECT_EQ(ledger.device.paid(), buffers + layout.staging_bytes + layout.max_dispatches * kParamsStride);
  expect_limit(&Options::max_nodes, 3, "nodes", "max_nodes");
  expect_limit(&Options::max_dispatches, ledger.dispatches.paid(), "dispatches in a call", "max_dispatches");
  expect_limit(&Options::max_device_bytes, ledger.device.paid(), "bytes on the device", "max_device_bytes");
  expect_limit(&Options::max_host_bytes, ledger.host.paid(), "bytes on the host", "max_host_bytes");
}

TEST(Limits, zero_stands_for_the_defaults) {
  DeviceProfile large;
  large.limits.max_buffer_size = large.limits.max_storage_binding_size = 1ULL << 40;
  large.limits.max_workgroups_per_dimension = 1U << 30;
  const Shape shape{900'000'000};
  const auto refused = Plan::make(three_sums(shape).graph, large, {}, ops::registry());
  EXPECT_TRUE(fails_with(refused, "bytes on the device, but the option max_device_bytes allows 17179869184"));
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  const Options options{.max_device_bytes = 1ULL << 40};
  EXPECT_TRUE(succeeds(Plan::make(three_sums(shape).graph, large, options, ops::registry())));

  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {4}));
  for (std::uint64_t i = 0; i <= DefaultLimits::max_nodes; ++i) b.op("aten.neg.default", {x, x});
  b.output(x);
  EXPECT_TRUE(fails_with(Plan::make(b.graph, {}, {}, ops::registry()), "65537 nodes, but the option max_nodes allows"));
}

TEST(Limits, dispatches_are_counted_while_a_node_is_lowered) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {1}));
  const auto out = b.tensor(DType::f32, {5000});
  b.op("aten.cat.default", {b.list(std::vector<ValueId>(5000, x)), b.integer(0), out});
  b.output(out);
  EXPECT_MENTIONS(error_of(b, {}, {.max_dispatches = 10}), "at least 11 dispatches in a call");
}

/// Each dispatch finds its shard without looking at all others, so this ends soon.
TEST(Limits, dispatches_of_very_many_shards_are_counted) {
  const auto t = table(300'000, 32, 32, {5});
  EXPECT_TRUE(fails_with(Plan::make(t.b.graph, {}, {.max_shard_bytes = 16}, ops::registry()),
                         "262145 dispatches in a call, but the option max_dispatches allows 262144"));
}

}  // namespace
}  // namespace nibble
