// Attention, caches and rotary embedding without a GPU: forms, parts, working memory, errors.
#include <gtest/gtest.h>

#include "support/expect.hpp"
#include "support/planning.hpp"

namespace nibble {
namespace {

using test::fails_with;
using test::GraphBuilder;
using test::succeeds;

DeviceProfile profile(AdapterKind kind) {
  DeviceProfile p;
  p.kind = kind;
  return p;
}

/// q, k and v of `rows` rows at a position that an input gives, through attention with caches.
struct Cached {
  GraphBuilder b;
  ValueId q, k, v, k_cache, v_cache, mask, causal, out;

  Cached(std::int64_t rows, std::int64_t heads, std::int64_t key_heads, std::int64_t size, std::int64_t positions,
         DType dtype = DType::f32) {
    const auto position = b.input(b.tensor(DType::i32, {1}));
    q = b.input(b.tensor(dtype, {1, rows, heads, size}));
    k = b.input(b.tensor(dtype, {1, rows, key_heads, size}));
    v = b.input(b.tensor(dtype, {1, rows, key_heads, size}));
    k_cache = b.constant(dtype, {1, positions, key_heads, size});
    v_cache = b.constant(dtype, {1, positions, key_heads, size});
    mask = b.null();
    causal = b.boolean(true);
    out = b.tensor(dtype, {1, rows, heads, size});
    const auto start = b.symint();
    b.op("et_vk.select_as_symint.default", {position, b.integer(0), b.integer(0), start});
    b.op("sdpa_with_kv_cache.default",
         {q, k, v, k_cache, v_cache, start, b.integer(1), mask, b.integer(0), causal, b.null(), out});
    b.output(out);
  }
  Result<std::shared_ptr<const Plan>> plan(AdapterKind kind = AdapterKind::cpu) { return make(b, profile(kind)); }
  std::string error() {
    const auto p = plan();
    if (!p) return p.error().message;
    Stepper stepper(*p);
    const std::int32_t zero[] = {0};
    stepper.set_host_data(0, zero);
    const auto status = stepper.update();
    return status ? "" : status.error().message;
  }
};

Status step(Stepper& stepper, std::int64_t rows, std::int64_t heads, std::int64_t key_heads, std::int64_t size,
            std::int32_t start) {
  const std::int32_t data[] = {start};
  stepper.set_host_data(0, data);
  TRY(stepper.set_shape(1, {1, rows, heads, size}));
  TRY(stepper.set_shape(2, {1, rows, key_heads, size}));
  TRY(stepper.set_shape(3, {1, rows, key_heads, size}));
  return stepper.update();
}

TEST(Attention, of_no_rows_takes_only_what_was_planned) {
  for (const std::string variant : {"row", "rows", "wide_tile", "tile"}) {
    Cached c(5, 4, 2, 18, 32);
    Options options;
    options.variants = {{"attention", variant}};
    const auto plan = make(c.b, profile(AdapterKind::discrete), options);
    ASSERT_TRUE(succeeds(plan));
    Stepper stepper(*plan);
    EXPECT_TRUE(succeeds(step(stepper, 0, 4, 2, 18, 7))) << variant;
  }
}

TEST(Attention, writes_caches_in_one_dispatch_and_splits_keys_only_where_rows_are_few) {
  for (const auto kind : {AdapterKind::cpu, AdapterKind::discrete}) {
    Cached c(128, 32, 8, 64, 2048);
    const auto plan = c.plan(kind);
    ASSERT_TRUE(succeeds(plan));
    Stepper stepper(*plan);
    ASSERT_TRUE(succeeds(step(stepper, 1, 32, 8, 64, 2047)));
    EXPECT_EQ(stepper.dispatches().size(), 3U) << "the caches, the parts, the merge";
    ASSERT_TRUE(succeeds(step(stepper, 1, 32, 8, 64, 3)));
    EXPECT_EQ(stepper.dispatches().size(), 2U) << "too few keys to split";
    ASSERT_TRUE(succeeds(step(stepper, 128, 32, 8, 64, 0)));
    EXPECT_EQ(stepper.dispatches().size(), 2U);
    ASSERT_TRUE(succeeds(step(stepper, 0, 32, 8, 64, 5)));
    EXPECT_EQ(stepper.dispatches().size(), 0U);
    EXPECT_EQ(stepper.output_shape(0), (Shape{1, 0, 32, 64}));
    for (std::int64_t rows = 1; rows <= 128; rows += 7) {
      for (const std::int32_t start : {0, 1, 100, 1000, 1920}) {
        ASSERT_TRUE(succeeds(step(stepper, rows, 32, 8, 64, start))) << rows << " " << start;
      }
    }
  }
}

TEST(Attention, working_memory_does_not_grow_with_the_context) {
  const auto scratch = [](std::int64_t positions, std::int64_t size, AdapterKind kind) {
    Cached c(128, 32, 8, size, positions);
    const auto plan = c.plan(kind);
    EXPECT_TRUE(succeeds(plan));
    return (*plan)->storage().scratch_bytes[1];
  };
  for (const auto kind : {AdapterKind::cpu, AdapterKind::discrete}) {
    EXPECT_EQ(scratch(14'000, 64, kind), scratch(10'000, 64, kind));
    EXPECT_LE(scratch(14'000, 64, kind), 2U << 20U);
    EXPECT_LE(scratch(14'000, 18, kind), 2U << 20U);
  }
  EXPECT_EQ(scratch(60'000, 64, AdapterKind::discrete), scratch(10'000, 64, AdapterKind::discrete));
  // Threads of a CPU adapter may go round their loops 60,000 times, 34 times for 8 keys: all rows are in 5 parts.
  EXPECT_EQ(scratch(60'000, 64, AdapterKind::cpu), std::uint64_t{5} * 128 * 32 * (64 / 4 + 1) * 16);
  EXPECT_EQ(scratch(16, 64, AdapterKind::cpu), 0U) << "a short cache is never split";
}

TEST(Attention, names_positions_past_the_cache_and_goes_on) {
  Cached c(8, 4, 2, 16, 64);
  const auto plan = c.plan();
  ASSERT_TRUE(succeeds(plan));
  Stepper stepper(*plan);
  const auto past = step(stepper, 8, 4, 2, 16, 60);
  EXPECT_TRUE(fails_with(past, "sdpa_with_kv_cache.default: start_pos 60 + 8 new positions reach past the cache's 64"));
  EXPECT_EQ(past.error().code, ErrorCode::out_of_range);
  EXPECT_TRUE(fails_with(step(stepper, 1, 4, 2, 16, 64), "start_pos 64 + 1 new positions reach past the cache's 64"));
  EXPECT_TRUE(fails_with(step(stepper, 1, 4, 2, 16, -3), "start_pos is -3, but it must not be negative"));
  EXPECT_TRUE(succeeds(step(stepper, 8, 4, 2, 16, 56)));
  EXPECT_GE(stepper.dispatches().size(), 2U);
}

TEST(Attention, rejects_wrong_arguments_by_name) {
  {
    Cached c(2, 5, 2, 8, 64);
    EXPECT_MENTIONS(c.error(), "query has 5 heads, which 2 heads of key_cache cannot share");
  }
  {
    Cached c(2, 4, 2, 40'000, 64);
    EXPECT_MENTIONS(c.error(), "heads have 40000 elements, but 32768 is the most");
  }
  {
    Cached c(2, 4, 2, 8, 64);
    c.b.graph.tensor(c.v_cache)->shape = {1, 65, 2, 8};
    EXPECT_MENTIONS(c.error(), "key_cache has shape [1, 64, 2, 8], but value_cache has [1, 65, 2, 8]");
  }
  {
    Cached c(2, 4, 2, 8, 64);
    c.b.graph.tensor(c.q)->shape = {1, 2, 4, 12};
    EXPECT_MENTIONS(c.error(), "query has shape [1, 2, 4, 12], but key_cache has [1, 64, 2, 8]");
  }
  {
    Cached c(2, 4, 2, 8, 64);
    c.b.graph.tensor(c.k)->shape = {1, 2, 1, 8};
    c.b.graph.tensor(c.v)->shape = {1, 2, 1, 8};
    EXPECT_MENTIONS(c.error(), "key has shape [1, 2, 1, 8], which does not fit key_cache of shape [1, 64, 2, 8]");
  }
  {
    Cached c(2, 4, 2, 8, 64);
    c.b.graph.tensor(c.k)->shape = {1, 3, 2, 8};
    EXPECT_MENTIONS(c.error(), "their positions differ");
  }
  {
    Cached c(2, 4, 2, 8, 64, DType::i32);
    EXPECT_MENTIONS(c.error(), "query must be float32 or float16, but it is int32");
  }
  {
    Cached c(2, 4, 2, 8, 64);
    c.b.graph.values[c.mask] = TensorValue{DType::f32, DType::f32, {2, 64}, -1, -1};
    c.b.input(c.mask);
    EXPECT_MENTIONS(c.error(), "attn_mask and is_causal exclude each other");
    c.b.graph.values[c.causal] = false;
    EXPECT_EQ(c.error(), "");
    c.b.graph.tensor(c.mask)->shape = {2, 60};
    EXPECT_MENTIONS(c.error(), "attn_mask has shape [2, 60], which does not broadcast to [1, 4, 2, 64]");
    c.b.graph.tensor(c.mask)->dtype = DType::boolean;
    EXPECT_MENTIONS(c.error(), "attn_mask must be float32 or float16, but it is bool");
  }
}

Result<std::shared_ptr<const Plan>> plan_sdpa(const Shape& q, const Shape& k, const Shape& v, const Shape& out,
                                              AdapterKind kind = AdapterKind::cpu,
                                              const std::optional<Shape>& mask = std::nullopt) {
  GraphBuilder b;
  const auto given = [&](const Shape& shape) { return b.input(b.tensor(DType::f32, shape)); };
  const auto result = b.tensor(DType::f32, out);
  b.op("et_vk.sdpa.default", {given(q), given(k), given(v), mask ? given(*mask) : b.null(), b.null(), result});
  b.output(result);
  return make(b, profile(kind));
}

TEST(Attention, of_repeated_operands_has_the_shape_that_torch_gives) {
  const auto shape = [](const Shape& q, const Shape& k, const Shape& v, const std::optional<Shape>& mask = {}) {
    const auto plan = plan_sdpa(q, k, v, {6, 6, 6, 6, 12}, AdapterKind::discrete, mask);
    EXPECT_TRUE(succeeds(plan));
    if (!plan) return Shape{};
    Stepper stepper(*plan);
    EXPECT_TRUE(succeeds(stepper.update()));
    return stepper.output_shape(0);
  };
  EXPECT_EQ(shape({6, 6, 6, 6, 8}, {6, 6, 1, 7, 8}, {1, 1, 6, 7, 12}), (Shape{6, 6, 6, 6, 12}));
}

TEST(Attention, of_wide_heads_and_other_values_is_planned_for_a_gpu) {
  const auto plan = plan_sdpa({1, 2, 8, 513}, {1, 2, 9, 513}, {1, 2, 9, 516}, {1, 2, 8, 516}, AdapterKind::discrete);
  ASSERT_TRUE(succeeds(plan));
  Stepper stepper(*plan);
  ASSERT_TRUE(succeeds(stepper.update()));
  EXPECT_EQ(stepper.dispatches().size(), 2U) << "rows that are no whole vec4s are merged";
}

TEST(Attention, names_operands_that_do_not_go_together) {
  const Shape out{2, 4, 3, 8};
  EXPECT_TRUE(fails_with(plan_sdpa({2, 4, 3, 8}, {3, 4, 5, 8}, {3, 4, 5, 8}, out),
                         "k has shape [3, 4, 5, 8], whose batches and heads do not broadcast to [2, 4, 1, 1]"));
  EXPECT_TRUE(fails_with(plan_sdpa({2, 5, 3, 8}, {2, 3, 5, 8}, {2, 3, 5, 8}, out),
                         "k has shape [2, 3, 5, 8], whose batches and heads do not broadcast to [2, 5, 1, 1]"));
  EXPECT_TRUE(fails_with(plan_sdpa({2, 4, 3, 8}, {2, 4, 5, 7}, {2, 4, 5, 8}, out),
                         "q has shape [2, 4, 3, 8], but k has [2, 4, 5, 7]"));
  EXPECT_TRUE(fails_with(plan_sdpa({2, 4, 3, 8}, {2, 4, 5, 8}, {2, 4, 6, 8}, out),
                         "v has shape [2, 4, 6, 8], but there are 5 keys"));
  EXPECT_TRUE(fails_with(plan_sdpa({8}, {5, 8}, {5, 8}, out), "q must have 2 dimensions or more"));
  EXPECT_TRUE(fails_with(plan_sdpa({2, 2, 4, 3, 8}, {1, 2, 4, 5, 8}, {2, 2, 4, 5, 8}, {2, 2, 4, 3, 8}),
                         "of several dimensions of batches, some are repeated"));
}

/// q and k through one of the rotary forms.
struct Rotary {
  GraphBuilder b;
  ValueId q, k, cos, sin, q_out, k_out;

  Rotary(bool halves, Shape query, Shape key, Shape table, std::int64_t start = 0) {
    q = b.input(b.tensor(DType::f32, query));
    k = b.input(b.tensor(DType::f32, key));
    cos = b.input(b.tensor(DType::f32, table));
    sin = b.input(b.tensor(DType::f32, table));
    q_out = b.tensor(DType::f32, query);
    k_out = b.tensor(DType::f32, key);
    std::vector<ValueId> args{q, k, cos, sin};
    if (halves) args.push_back(b.integer(start));
    args.push_back(b.list({q_out, k_out}));
    b.op(halves ? "et_vk.apply_rotary_emb_hf.default" : "et_vk.apply_rotary_emb.default", args);
    b.output(q_out);
    b.output(k_out);
  }
  Result<std::shared_ptr<const Plan>> plan() { return make(b); }
};

TEST(Rotary, turns_queries_and_keys_in_one_dispatch) {
  for (const bool halves : {false, true}) {
    Rotary r(halves, {1, 5, 4, 18}, {1, 5, 2, 18}, {5, halves ? 18 : 9});
    const auto plan = r.plan();
    ASSERT_TRUE(succeeds(plan));
    Stepper stepper(*plan);
    ASSERT_TRUE(succeeds(stepper.update()));
    EXPECT_EQ(stepper.dispatches().size(), 1U);
  }
}

TEST(Rotary, takes_a_dispatch_for_each_part_of_its_tables) {
  Rotary r(true, {1, 5, 4, 18}, {1, 5, 2, 18}, {60, 18});
  r.b.graph.inputs.resize(2);
  for (const auto table : {r.cos, r.sin})
    r.b.graph.values[table] = r.b.graph.values[r.b.constant(DType::f32, {60, 18})];
  Options options;
  options.max_shard_bytes = 1500;  // 20 rows of 72 bytes
  const auto plan = make(r.b, {}, options);
  ASSERT_TRUE(succeeds(plan));
  Stepper stepper(*plan);
  ASSERT_TRUE(succeeds(stepper.update()));
  EXPECT_EQ(stepper.dispatches().size(), 3U);
}

TEST(Rotary, rejects_wrong_arguments_by_name) {
  EXPECT_TRUE(fails_with(Rotary(false, {1, 5, 4, 18}, {1, 5, 2, 18}, {5, 8}).plan(),
                         "freqs_cos has 8 columns, which do not fit heads of 18 elements"));
  EXPECT_TRUE(fails_with(Rotary(true, {1, 5, 4, 18}, {1, 5, 2, 18}, {5, 20}).plan(),
                         "freqs_cos has 20 columns, which do not fit heads of 18 elements"));
  EXPECT_TRUE(fails_with(Rotary(false, {1, 5, 4, 18}, {1, 5, 2, 18}, {4, 9}).plan(),
                         "start_pos 0 + 5 positions reach past the 4 rows of freqs_cos"));
  EXPECT_TRUE(fails_with(Rotary(true, {1, 5, 4, 18}, {1, 5, 2, 18}, {9, 18}, 5).plan(),
                         "start_pos 5 + 5 positions reach past the 9 rows of freqs_cos"));
  EXPECT_TRUE(fails_with(Rotary(true, {1, 5, 4, 18}, {1, 5, 2, 18}, {9, 18}, -1).plan(), "must not be negative"));
  EXPECT_TRUE(fails_with(Rotary(false, {1, 5, 4, 18}, {1, 4, 2, 18}, {5, 9}).plan(),
                         "xq has shape [1, 5, 4, 18], but xk has [1, 4, 2, 18]"));
  EXPECT_TRUE(fails_with(Rotary(false, {5, 4, 18}, {5, 2, 18}, {5, 9}).plan(), "xq must have 4 dimensions"));
}

TEST(UpdateCache, is_one_dispatch_whose_output_is_the_cache) {
  GraphBuilder b;
  const auto value = b.input(b.tensor(DType::f32, {1, 3, 2, 8}));
  const auto cache = b.constant(DType::f32, {1, 16, 2, 8});
  const auto shown = b.tensor(DType::f32, {1, 16, 2, 8});
  b.op("update_cache.default", {value, cache, b.integer(5), shown});
  b.output(b.add(shown, shown, {1, 16, 2, 8}));
  const auto plan = make(b);
  ASSERT_TRUE(succeeds(plan));
  Stepper stepper(*plan);
  ASSERT_TRUE(succeeds(stepper.update()));
  EXPECT_EQ(stepper.dispatches().size(), 2U);
  b.graph.values[b.graph.nodes[0].args[2]] = std::int64_t{14};
  EXPECT_TRUE(fails_with(make(b), "update_cache.default: start_pos 14 + 3 new positions reach past the cache's 16"));
}

}  // namespace
}  // namespace nibble
