// What of a session's state counts, without a GPU.
#include "plan/live_rows.hpp"

#include <gtest/gtest.h>

#include "support/expect.hpp"
#include "support/planning.hpp"

namespace nibble {
namespace {

using test::GraphBuilder;
using test::succeeds;

struct RangesCase {
  DType dtype;
  Shape shape;
  std::int32_t row_axis;
  std::int64_t rows;
  std::vector<StateRange> wanted;
};

Layout layout_of(const RangesCase& c) {
  Layout layout;
  layout.buffers.push_back({16, BufferRole::slot});
  layout.buffers.push_back({padded_size(Size::bytes(c.shape, c.dtype).unchecked()), BufferRole::state});
  layout.states.push_back(
      {.value = 0, .buffer = 1, .role = "cache", .dtype = c.dtype, .shape = c.shape, .row_axis = c.row_axis});
  return layout;
}

TEST(LiveRanges, are_the_rows_in_use_of_each_leading_index) {
  const RangesCase cases[] = {
      {DType::f32, {1, 10, 4, 8}, 1, 0, {}},
      {DType::f32, {1, 10, 4, 8}, 1, 3, {{1, 0, 384}}},
      {DType::f32, {1, 10, 4, 8}, 1, 10, {{1, 0, 1280}}},
      {DType::f32, {10, 4}, 0, 2, {{1, 0, 32}}},
      {DType::f32, {2, 3, 10, 2}, 2, 1, {{1, 0, 8}, {1, 80, 8}, {1, 160, 8}, {1, 240, 8}, {1, 320, 8}, {1, 400, 8}}},
      // Rows of 6 bytes: what is between two multiples of 4 goes with both.
      {DType::f16, {3, 5, 3}, 1, 1, {{1, 0, 8}, {1, 28, 8}, {1, 60, 8}}},
      {DType::f16, {1, 5, 3}, 1, 3, {{1, 0, 20}}},
      {DType::f16, {5, 1}, 0, 1, {{1, 0, 4}}},
      {DType::u8, {3, 5, 1}, 1, 1, {{1, 0, 4}, {1, 4, 4}, {1, 8, 4}}},
      // Full: all of it at once, with the padding.
      {DType::f16, {3, 5, 3}, 1, 5, {{1, 0, 96}}},
      // Too many parts to copy one by one.
      {DType::f32, {64, 4, 1}, 1, 4, {{1, 0, 1024}}},
      {DType::f32, {65, 4, 1}, 1, 1, {{1, 0, 1040}}},
      // Nothing at all.
      {DType::f32, {0, 10, 4}, 1, 3, {}},
      {DType::f32, {2, 10, 0}, 1, 3, {}},
  };
  for (const auto& c : cases) {
    const std::uint8_t by_rows[] = {1};
    EXPECT_EQ(live_ranges(layout_of(c), by_rows, {&c.rows, 1}), c.wanted) << to_string(c.shape) << " " << c.rows;
  }
}

TEST(LiveRanges, of_a_state_that_does_not_count_by_rows_are_its_buffer) {
  for (const auto& c : {RangesCase{DType::f32, {1, 10, 4, 8}, 1, 3, {{1, 0, 1280}}},
                        RangesCase{DType::f32, {3}, StateDesc::kNoRows, 0, {{1, 0, 16}}},
                        RangesCase{DType::f32, {0}, StateDesc::kNoRows, 0, {{1, 0, 16}}}}) {
    const std::uint8_t by_rows[] = {0};
    EXPECT_EQ(live_ranges(layout_of(c), by_rows, {&c.rows, 1}), c.wanted);
  }
}

TEST(LiveRanges, of_values_that_share_a_buffer_come_once) {
  Layout layout = layout_of({DType::f32, {1, 10, 4}, 1, 3, {}});
  layout.states.push_back(layout.states.front());
  layout.states.back().row_axis = StateDesc::kNoRows;
  const std::int64_t rows[] = {3, 0};
  EXPECT_EQ(live_ranges(layout, std::array<std::uint8_t, 2>{1, 1}, rows), (std::vector<StateRange>{{1, 0, 48}}));
  EXPECT_EQ(live_ranges(layout, std::array<std::uint8_t, 2>{0, 0}, rows), (std::vector<StateRange>{{1, 0, 160}}));
}

/// A cache that an op fills at a place, and what else reads it.
struct Filled {
  GraphBuilder b;
  ValueId value, cache, start;

  Filled() {
    const auto place = b.input(b.tensor(DType::i32, {1}));
    value = b.input(b.tensor(DType::f32, {1, 1, 2, 4}));
    cache = b.constant(DType::f32, {1, 8, 2, 4});
    start = b.symint();
    b.op("et_vk.select_as_symint.default", {place, b.integer(0), b.integer(0), start});
  }
  void update(ValueId out) { b.op("update_cache.default", {value, cache, start, out}); }
  void attend(ValueId keys, bool has_mask = false) {
    const auto out = b.tensor(DType::f32, {1, 1, 2, 4});
    const auto mask = has_mask ? b.input(b.tensor(DType::f32, {1, 8})) : b.null();
    b.op("llama.custom_sdpa.default",
         {value, keys, keys, start, mask, b.integer(0), b.boolean(!has_mask), b.null(), out});
    b.output(out);
  }
  std::vector<std::uint8_t> counts() {
    const auto plan = Plan::make(b.graph, {}, {}, ops::registry());
    EXPECT_TRUE(succeeds(plan));
    return plan ? counts_by_rows(**plan) : std::vector<std::uint8_t>{};
  }
};

bool are_all(const std::vector<std::uint8_t>& counts, std::uint8_t wanted) {
  return !counts.empty() && std::ranges::all_of(counts, [&](auto one) { return one == wanted; });
}

TEST(CountsByRows, is_so_for_a_cache_that_only_cache_ops_touch) {
  Filled one;
  one.update(one.b.tensor(DType::f32, {1}));
  one.attend(one.cache);
  EXPECT_TRUE(are_all(one.counts(), 1));
}

TEST(CountsByRows, is_not_so_where_a_mask_says_what_counts) {
  Filled ring;
  ring.update(ring.b.tensor(DType::f32, {1}));
  ring.attend(ring.cache, true);
  EXPECT_TRUE(are_all(ring.counts(), 0));
}

TEST(CountsByRows, is_so_where_the_output_stands_for_the_cache) {
  Filled one;
  const auto out = one.b.tensor(DType::f32, {1, 8, 2, 4});
  one.update(out);
  one.attend(out);
  EXPECT_TRUE(are_all(one.counts(), 1));
}

TEST(CountsByRows, is_not_so_for_a_cache_that_the_program_returns) {
  Filled one;
  const auto out = one.b.tensor(DType::f32, {1, 8, 2, 4});
  one.update(out);
  one.b.output(out);
  EXPECT_TRUE(are_all(one.counts(), 0));
}

TEST(CountsByRows, is_not_so_for_a_cache_that_another_op_reads) {
  Filled one;
  one.update(one.b.tensor(DType::f32, {1}));
  const auto sum = one.b.tensor(DType::f32, {1, 8, 2, 4});
  one.b.op("aten.add.Tensor", {one.cache, one.cache, one.b.integer(1), sum});
  one.b.output(sum);
  EXPECT_TRUE(are_all(one.counts(), 0));
}

TEST(CountsByRows, is_not_so_for_a_state_without_rows) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {3}));
  const auto sum = b.constant(DType::f32, {3});
  b.op("aten.add.Tensor", {sum, x, b.integer(1), sum});
  b.output(sum);
  const auto plan = Plan::make(b.graph, {}, {}, ops::registry());
  ASSERT_TRUE(succeeds(plan));
  EXPECT_EQ(counts_by_rows(**plan), std::vector<std::uint8_t>{0});
}

}  // namespace
}  // namespace nibble
