// Matrix products, planned with no GPU: shapes, dispatches, pipelines, sentences.
#include <gtest/gtest.h>

#include "support/expect.hpp"
#include "support/planning.hpp"

namespace nibble {
namespace {

using test::fails_with;
using test::GraphBuilder;
using test::succeeds;

// Where the sections of a product's parameters begin: width first, then first column and width of the result.
constexpr std::size_t kSections = 96;

struct Linear {
  GraphBuilder b;
  ValueId x, weight, scales, out;
};

Linear linear_q4(Shape x, std::int64_t columns, std::int64_t group, DType dtype = DType::f32) {
  Linear l;
  const std::int64_t depth = x[x.rank() - 1];
  l.x = l.b.input(l.b.tensor(dtype, x));
  l.weight = l.b.constant(DType::u8, {columns, (depth + 1) / 2});
  l.scales = l.b.constant(DType::f32, {group == 0 ? 0 : depth / group, columns});
  x[x.rank() - 1] = columns;
  l.out = l.b.tensor(dtype, x);
  l.b.op("et_vk.linear_q4gsw.default", {l.x, l.weight, l.scales, l.b.integer(group), l.b.null(), l.out});
  l.b.output(l.out);
  return l;
}

auto plan_of(const GraphBuilder& b, AdapterKind kind = AdapterKind::cpu, std::uint64_t shard_bytes = 0) {
  DeviceProfile profile;
  profile.kind = kind;
  Options options;
  options.max_shard_bytes = shard_bytes;
  return make(b, profile, options);
}

TEST(Linear, follows_the_number_of_rows_and_makes_no_pipeline_after_load) {
  for (const auto kind : {AdapterKind::cpu, AdapterKind::discrete}) {
    auto l = linear_q4({1, 200, 64}, 96, 32);
    const auto plan = plan_of(l.b, kind);
    ASSERT_TRUE(succeeds(plan));
    Stepper stepper(*plan);
    for (const std::int64_t rows : {200, 1, 2, 3, 4, 5, 33, 0, 199}) {
      ASSERT_TRUE(stepper.set_shape(0, {1, rows, 64}));
      ASSERT_TRUE(succeeds(stepper.update()));
      EXPECT_EQ(stepper.output_shape(0), (Shape{1, rows, 96}));
      EXPECT_EQ(stepper.dispatches().size(), rows == 0 ? 0U : 1U);
    }
  }
}

TEST(Linear, of_a_vocabulary_over_the_binding_limit_writes_its_columns_shard_by_shard) {
  auto l = linear_q4({1, 1152}, 262144, 32);  // 151 MB of nibbles, limit 128 MiB
  l.b.graph.tensor(l.scales)->shape = {36, 262144};
  const auto plan = plan_of(l.b, AdapterKind::discrete);
  ASSERT_TRUE(succeeds(plan));
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  ASSERT_EQ(stepper.dispatches().size(), 2U);
  // width and first column of the result, in the first section.
  std::uint32_t next = 0;
  for (const auto* d : stepper.dispatches()) {
    std::array<std::uint32_t, 8> p{};
    std::memcpy(p.data(), d->params.data() + kSections, sizeof(p));
    EXPECT_EQ(p[4], next);
    EXPECT_EQ(p[5], 262144U);
    next = p[4] + p[0];
  }
  EXPECT_EQ(next, 262144U);
}

TEST(Linear, of_a_vocabulary_is_many_short_dispatches_on_a_cpu) {
  auto l = linear_q4({2, 1152}, 262144, 32);
  l.b.graph.tensor(l.scales)->shape = {36, 262144};
  const auto plan = plan_of(l.b, AdapterKind::cpu);
  ASSERT_TRUE(succeeds(plan));
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  // Two shards, of which the first is two batches.
  EXPECT_EQ(stepper.dispatches().size(), 4U);
  EXPECT_EQ(stepper.batches().size(), 3U);
}

TEST(Linear, of_scales_over_the_binding_limit_has_them_in_shards_of_columns) {
  auto l = linear_q4({1, 1088}, 262144, 8);  // 143 MB of nibbles, and as many of scales
  const auto plan = plan_of(l.b, AdapterKind::discrete);
  ASSERT_TRUE(succeeds(plan));
  // Each row of each shard of scales is an upload of its own: 136 groups in two shards, and two shards of nibbles.
  const auto& layout = (*plan)->layout();
  ASSERT_EQ(layout.uploads.size(), 2 + 2 * 136U);
  std::uint64_t bytes = 0;
  for (const auto& one : layout.uploads) {
    bytes += one.bytes;
    EXPECT_LE(one.buffer_offset + one.bytes, layout.buffers[one.buffer].bytes);
    EXPECT_EQ(one.buffer_offset % 4, 0U);
  }
  EXPECT_EQ(bytes, 262144U * 544 + std::uint64_t{262144} * 136 * 4);
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  std::uint32_t next = 0;
  for (const auto* d : stepper.dispatches()) {
    std::array<std::uint32_t, 8> p{};
    std::memcpy(p.data(), d->params.data() + kSections, sizeof(p));
    EXPECT_EQ(p[4], next);
    next = p[4] + p[0];
  }
  EXPECT_EQ(next, 262144U);
}

TEST(Linear, of_scales_that_others_read_too_says_what_is_too_large) {
  auto l = linear_q4({1, 64}, 64, 8);
  const auto copy = l.b.tensor(DType::f32, {8, 64});
  l.b.op("aten.add.Tensor", {l.scales, l.scales, l.b.integer(1), copy});
  l.b.output(copy);
  EXPECT_TRUE(
      fails_with(plan_of(l.b, AdapterKind::cpu, 1024), "weight_scales takes 2048 bytes, more than one binding"));
}

TEST(Linear, of_many_rows_takes_the_largest_tile_that_fits_the_workgroup_memory) {
  const auto l = linear_q4({1024, 64}, 4096, 32);
  for (const auto& [bytes, variant] : {std::pair{49152U, "tile_128"}, {24575U, "tile_64"}, {16383U, "tile"}}) {
    DeviceProfile profile;
    profile.kind = AdapterKind::discrete;
    profile.limits.max_workgroup_bytes = bytes;
    const auto plan = make(l.b, profile);
    ASSERT_TRUE(succeeds(plan));
    Stepper stepper(*plan);
    ASSERT_TRUE(succeeds(stepper.update()));
    ASSERT_EQ(stepper.choices(0).size(), 1U);
    const auto& chosen = stepper.choices(0)[0];
    EXPECT_EQ(chosen.choice->variants[chosen.variant].name, variant) << bytes;
  }
}

TEST(Linear, names_wrong_arguments) {
  EXPECT_TRUE(fails_with(plan_of(linear_q4({2, 64}, 8, 5).b), "group_size is 5, which does not divide the depth 64"));
  EXPECT_TRUE(fails_with(plan_of(linear_q4({2, 64}, 8, 0).b), "group_size is 0"));
  {
    auto l = linear_q4({2, 64}, 8, 32);
    l.b.graph.tensor(l.weight)->shape = {8, 30};
    EXPECT_TRUE(fails_with(plan_of(l.b), "weights must be uint8 of shape [columns, 32 or more] for a depth of 64"));
  }
  {
    auto l = linear_q4({2, 64}, 8, 32);
    l.b.graph.tensor(l.scales)->shape = {2, 7};
    EXPECT_TRUE(fails_with(plan_of(l.b), "weight_scales has shape [2, 7], but 2 groups of 8 columns need [2, 8]"));
  }
  {
    auto l = linear_q4({2, 64}, 8, 32, DType::i32);
    EXPECT_TRUE(fails_with(plan_of(l.b), "self must be float32 or float16, but it is int32"));
  }
  {
    auto l = linear_q4({2, 64}, 8, 32);
    l.b.graph.nodes[0].args[4] = l.b.constant(DType::f32, {7});
    EXPECT_TRUE(fails_with(plan_of(l.b), "bias has shape [7], but weights has 8 rows"));
  }
  {
    // A pass makes two nodes of it; the sentence names the one that the program has.
    auto l = linear_q4({2, 64}, 8, 5);
    const auto row_scales = l.b.input(l.b.tensor(DType::f32, {2}));
    const auto zero_points = l.b.input(l.b.tensor(DType::i8, {2}));
    l.b.graph.nodes[0] = {
        "et_vk.linear_dq8ca_q4gsw.default",
        {l.x, row_scales, zero_points, l.weight, l.scales, l.scales, l.b.integer(5), l.b.null(), l.out}};
    EXPECT_TRUE(fails_with(plan_of(l.b), "et_vk.linear_dq8ca_q4gsw.default: group_size is 5"));
  }
}

TEST(Linear, parts_are_checked) {
  const auto parts = [](IntList widths, IntList pitches, std::int64_t rows, bool has_offsets = false) {
    GraphBuilder b;
    const auto x = b.input(b.tensor(DType::f32, {3, 64}));
    const auto weight = b.constant(DType::u8, {rows, 32});
    const auto scales = b.constant(DType::f32, {2 * 32});
    std::vector<ValueId> outs;
    for (const auto width : widths) outs.push_back(b.tensor(DType::f32, {3, width}));
    for (const auto out : outs) b.output(out);
    b.op("nibble.linear_q4gsw_parts", {x, weight, scales, b.integer(32), b.ints(std::move(widths)),
                                       b.ints(std::move(pitches)), b.boolean(has_offsets), b.list(outs)});
    return b;
  };
  EXPECT_TRUE(succeeds(plan_of(parts({16, 8, 8}, {16, 8, 8}, 32))));
  EXPECT_TRUE(fails_with(plan_of(parts({32}, {32}, 32)), "must be 2 or 3 of each"));
  EXPECT_TRUE(fails_with(plan_of(parts({18, 8}, {18, 8}, 32)), "widths are multiples of 4"));
  EXPECT_TRUE(fails_with(plan_of(parts({16, 8}, {16, 4}, 32)), "8 wide with scales of pitch 4"));
  EXPECT_TRUE(fails_with(plan_of(parts({16, 8, 8}, {16, 8, 8}, 28)), "too small for 32 columns with 64 scales"));
  EXPECT_TRUE(fails_with(plan_of(parts({16, 8, 8}, {16, 8, 12}, 32)), "too small for 32 columns with 72 scales"));
  EXPECT_TRUE(succeeds(plan_of(parts({8, 8}, {8, 8}, 16, true))));
  EXPECT_TRUE(fails_with(plan_of(parts({16, 8}, {16, 8}, 24, true)), "too small for 24 columns with 96 scales"));
}

TEST(Linear, offsets_are_as_many_as_scales) {
  for (const std::int64_t rows : {4, 3}) {
    GraphBuilder b;
    const auto x = b.input(b.tensor(DType::f32, {3, 64}));
    const auto out = b.tensor(DType::f32, {3, 16});
    b.op("nibble.linear_q4gsw_offset",
         {x, b.constant(DType::u8, {16, 32}), b.constant(DType::f32, {rows, 16}), b.integer(32), b.null(), out});
    b.output(out);
    if (rows == 4) {
      EXPECT_TRUE(succeeds(plan_of(b)));
    } else {
      EXPECT_TRUE(fails_with(plan_of(b), "weight_scales has shape [3, 16], but 4 groups of 16 columns need [4, 16]"));
    }
  }
}

TEST(Linear, names_matrices_that_do_not_fit) {
  GraphBuilder b;
  const auto a = b.input(b.tensor(DType::f32, {2, 3}));
  const auto m = b.input(b.tensor(DType::f32, {4, 5}));
  const auto out = b.tensor(DType::f32, {2, 5});
  b.op("aten.mm.default", {a, m, out});
  b.output(out);
  EXPECT_TRUE(fails_with(plan_of(b), "aten.mm.default: shapes [2, 3] and [4, 5] cannot be multiplied"));
  b.graph.tensor(m)->shape = {3, 5};
  EXPECT_TRUE(succeeds(plan_of(b)));
  b.graph.nodes[0].op = "aten.bmm.default";
  EXPECT_TRUE(fails_with(plan_of(b), "must have 3 dimensions"));
  const auto addend = b.input(b.tensor(DType::f32, {4}));
  b.graph.nodes[0] = {"aten.addmm.default", {addend, a, m, b.integer(1), b.integer(1), out}};
  EXPECT_TRUE(fails_with(plan_of(b), "self has shape [4], which does not broadcast to [2, 5]"));
}

}  // namespace
}  // namespace nibble
