// From graph to plan, with no GPU: memory, aliases, shards, grids, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ops/registry.hpp"
#include "plan/stepper.hpp"
#include "support/graph_builder.hpp"

namespace nibble {
namespace {

using test::GraphBuilder;

Result<std::shared_ptr<const Plan>> make(GraphBuilder& b, DeviceProfile profile = {}, PlanOptions options = {}) {
  return Plan::make(b.graph, std::move(profile), options, ops::registry());
}

std::string error_of(GraphBuilder& b, DeviceProfile profile = {}, PlanOptions options = {}) {
  auto plan = make(b, std::move(profile), options);
  return plan ? "" : plan.error().message;
}

#define EXPECT_MENTIONS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

struct Table {
  GraphBuilder b;
  ValueId ids;
  ValueId out;
};

Table table(std::int64_t rows, std::int64_t width, std::int64_t group, Shape ids) {
  Table t;
  const auto weight = t.b.constant(DType::u8, {rows, width / 2});
  const auto scales = t.b.constant(DType::f32, {rows, width / group});
  t.ids = t.b.input(t.b.tensor(DType::i32, ids));
  t.out = t.b.embedding_q4(weight, scales, group, t.ids);
  t.b.output(t.out);
  return t;
}

std::size_t count(const Plan& plan, BufferRole role) {
  return static_cast<std::size_t>(std::ranges::count(plan.layout().buffers, role, &BufferDesc::role));
}

TEST(Plan, reports_all_unknown_operators_at_once) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {4}));
  b.op("aten.unheard_of.default", {x, b.tensor(DType::f32, {4})});
  b.op("aten.also_not.default", {x, b.tensor(DType::f32, {4})});
  b.op("aten.unheard_of.default", {x, b.tensor(DType::f32, {4})});
  EXPECT_EQ(error_of(b),
            "the program uses operators that Nibble does not have: aten.unheard_of.default, aten.also_not.default");
}

TEST(Plan, lays_out_an_embedding) {
  auto t = table(100, 64, 32, {2, 3});
  const auto plan = make(t.b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(count(**plan, BufferRole::constant), 2U);
  EXPECT_EQ((*plan)->layout().uploads.size(), 2U);
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  ASSERT_EQ(stepper.dispatches().size(), 1U);
  EXPECT_EQ(stepper.output_shape(0), (Shape{2, 3, 64}));
  ASSERT_EQ((*plan)->layout().inputs[0].checks.size(), 1U);
  EXPECT_EQ((*plan)->layout().inputs[0].checks[0].rows, 100);
  EXPECT_FALSE((*plan)->layout().can_fault) << "the host checks ids that come from an input";
}

TEST(Plan, follows_live_shapes_and_lowers_only_what_changed) {
  auto t = table(100, 64, 32, {1, 9});
  const auto plan = make(t.b);
  ASSERT_TRUE(plan);
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.set_shape(0, {1, 4}));
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.output_shape(0), (Shape{1, 4, 64}));
  const auto version = stepper.version();
  ASSERT_TRUE(stepper.set_shape(0, {1, 4}));
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.version(), version);
  ASSERT_TRUE(stepper.set_shape(0, {1, 0}));
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.dispatches().size(), 0U);
  EXPECT_GT(stepper.version(), version);
  EXPECT_EQ(stepper.output_shape(0), (Shape{1, 0, 64}));
}

TEST(Plan, names_an_input_that_is_too_large) {
  auto t = table(100, 64, 32, {1, 9});
  const auto plan = make(t.b);
  ASSERT_TRUE(plan);
  Stepper stepper(*plan);
  EXPECT_EQ(stepper.set_shape(0, {1, 10}).error().message,
            "input 0 has shape [1, 10], but the program takes at most [1, 9]");
  EXPECT_EQ(stepper.set_shape(0, {1}).error().message, "input 0 has shape [1], but the program takes [1, 9]");
}

TEST(Plan, makes_views_aliases) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 6}));
  const auto v = b.view(x, {12});
  const auto w = b.view(v, {3, 4});
  b.output(b.add(w, w, {3, 4}));
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.dispatches().size(), 1U);
  EXPECT_EQ(count(**plan, BufferRole::slot), 2U);
}

TEST(Plan, copies_a_view_of_state_that_is_written_later) {
  GraphBuilder b;
  const auto state = b.constant(DType::f32, {4});
  const auto x = b.input(b.tensor(DType::f32, {4}));
  const auto before = b.view(state, {2, 2});
  b.op("aten.add.Tensor", {state, x, b.integer(1), state});
  b.output(before);
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(count(**plan, BufferRole::state), 1U);
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  // The view is a copy; the sum is made beside the state and copied back.
  EXPECT_EQ(stepper.dispatches().size(), 3U);
}

TEST(Plan, stores_identical_constants_once_unless_one_is_written) {
  GraphBuilder b;
  const auto c1 = b.constant(DType::f32, {4}, "same");
  const auto c2 = b.constant(DType::f32, {4}, "same");
  const auto c3 = b.constant(DType::f32, {4}, "same");
  const auto x = b.input(b.tensor(DType::f32, {4}));
  const auto sum = b.add(c1, c2, {4});
  b.op("aten.add.Tensor", {c3, x, b.integer(1), c3});
  b.output(sum);
  b.output(c3);
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(count(**plan, BufferRole::constant), 1U);
  EXPECT_EQ(count(**plan, BufferRole::state), 1U);
  EXPECT_EQ((*plan)->layout().uploads.size(), 2U);
}

TEST(Plan, folds_prepack_into_the_constant) {
  GraphBuilder b;
  const auto c = b.constant(DType::f32, {4});
  const auto packed = b.tensor(DType::f32, {4});
  const auto x = b.input(b.tensor(DType::f32, {4}));
  b.op("et_vk.prepack.default", {c, packed});
  b.output(b.add(packed, x, {4}));
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ((*plan)->layout().uploads.size(), 1U);
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.dispatches().size(), 1U);
}

TEST(Plan, a_prepacked_buffer_that_is_written_is_state_of_its_own) {
  GraphBuilder b;
  const auto c = b.constant(DType::f32, {4}, "key");
  const auto packed = b.tensor(DType::f32, {4});
  const auto x = b.input(b.tensor(DType::f32, {4}));
  b.op("et_vk.prepack.default", {c, packed});
  b.op("aten.add.Tensor", {packed, x, b.integer(1), packed});
  b.output(b.add(c, packed, {4}));
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(count(**plan, BufferRole::constant), 1U);
  EXPECT_EQ(count(**plan, BufferRole::state), 1U);
}

TEST(Plan, reuses_slots_by_liveness) {
  GraphBuilder b;
  auto v = b.input(b.tensor(DType::f32, {1000}));
  for (int i = 0; i < 10; ++i) v = b.add(v, v, {1000});
  b.output(v);
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(count(**plan, BufferRole::slot), 2U);
  // No dispatch may find a buffer both read and written.
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  for (const auto* d : stepper.dispatches()) {
    EXPECT_NE(d->bindings[0], d->bindings[2]);
    EXPECT_NE(d->bindings[1], d->bindings[2]);
  }
}

TEST(Plan, refuses_values_that_nothing_wrote) {
  GraphBuilder b;
  b.output(b.add(b.tensor(DType::f32, {4}), b.tensor(DType::f32, {4}), {4}));
  EXPECT_MENTIONS(error_of(b), "before anything wrote it");
}

TEST(Plan, refuses_64_bit_elements_by_name) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::i64, {4}));
  b.output(b.add(x, x, {4}, DType::i64));
  EXPECT_MENTIONS(error_of(b), "int64");
}

TEST(Plan, refuses_an_output_that_outgrows_its_room) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {4, 4}));
  b.output(b.add(x, x, {4, 2}));
  EXPECT_EQ(error_of(b), "aten.add.Tensor: out would have shape [4, 4], but the program makes room for [4, 2]");
}

TEST(Plan, refuses_an_activation_over_the_limit_by_name) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {1, 64}));
  const auto y = b.input(b.tensor(DType::f32, {1 << 20, 1}));
  b.output(b.add(x, y, {1 << 20, 64}));
  EXPECT_MENTIONS(error_of(b), "[1048576, 64]");
}

// --- 4-bit tables ---

TEST(EmbeddingQ4, rejects_wrong_arguments_by_name) {
  {
    auto t = table(10, 64, 32, {2});
    t.b.graph.tensor(0)->dtype = DType::i8;
    EXPECT_MENTIONS(error_of(t.b), "weight must be uint8");
  }
  {
    auto t = table(10, 64, 32, {2});
    t.b.graph.tensor(1)->shape = {10, 3};
    EXPECT_MENTIONS(error_of(t.b),
                    "weight_scales has shape [10, 3], but 10 rows of 64 values in groups of 32 need [10, 2]");
  }
  {
    auto t = table(10, 64, 32, {2});
    t.b.graph.values[t.b.graph.nodes[0].args[2]] = std::int64_t{0};
    EXPECT_MENTIONS(error_of(t.b), "group_size is 0");
  }
  {
    auto t = table(10, 64, 32, {2});
    t.b.graph.tensor(t.ids)->dtype = DType::f32;
    EXPECT_MENTIONS(error_of(t.b), "indices must be int32, but it is float32");
  }
  {
    auto t = table(10, 64, 32, {2});
    t.b.graph.nodes[0].args.erase(t.b.graph.nodes[0].args.begin() + 4);
    EXPECT_MENTIONS(error_of(t.b), "takes 6 arguments, but the program gives 5");
  }
  {
    auto t = table(10, 64, 32, {2});
    t.b.graph.nodes[0].args[2] = t.ids;
    EXPECT_MENTIONS(error_of(t.b), "group_size must be a number, but it is Tensor");
  }
}

TEST(EmbeddingQ4, takes_scalars_of_the_other_number_type) {
  auto t = table(10, 64, 32, {2});
  t.b.graph.values[t.b.graph.nodes[0].args[2]] = 32.0;
  t.b.graph.values[t.b.graph.nodes[0].args[4]] = std::int64_t{1};
  EXPECT_EQ(error_of(t.b), "");
  t.b.graph.values[t.b.graph.nodes[0].args[2]] = 32.5;
  EXPECT_MENTIONS(error_of(t.b), "group_size must be an integer, but it is 32.5");
}

TEST(EmbeddingQ4, splits_a_table_over_the_binding_limit_into_shards) {
  auto t = table(140000, 2048, 32, {5});  // 143 MB of nibbles, limit 128 MiB
  const auto plan = make(t.b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(count(**plan, BufferRole::constant), 3U);
  std::uint64_t bytes = 0;
  for (const auto& u : (*plan)->layout().uploads) {
    if (u.constant == 0) bytes += u.bytes;
  }
  EXPECT_EQ(bytes, 140000ULL * 1024);
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.dispatches().size(), 2U);
}

TEST(EmbeddingQ4, shards_of_table_and_scales_need_not_agree) {
  auto t = table(1000, 64, 2, {5});  // 32 bytes of nibbles and 128 of scales a row
  PlanOptions options;
  options.max_shard_bytes = 10000;
  const auto plan = make(t.b, {}, options);
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  // The row ranges of all dispatches together are each row once.
  std::uint32_t next = 0;
  for (const auto* d : stepper.dispatches()) {
    std::array<std::uint32_t, 10> p{};
    std::memcpy(p.data(), d->params.data(), sizeof(p));
    EXPECT_EQ(p[3], next);
    next = p[4];
    EXPECT_LE(p[8], p[3]);
    EXPECT_LE(p[9], p[3]);
  }
  EXPECT_EQ(next, 1000U);
}

TEST(EmbeddingQ4, refuses_a_row_that_no_buffer_holds) {
  auto t = table(1000, 64, 32, {5});
  PlanOptions options;
  options.max_shard_bytes = 16;
  EXPECT_MENTIONS(error_of(t.b, {}, options), "32 bytes, but a buffer on this device holds at most 16");
}

// A device that no machine here has: buffers of a terabyte. Offsets within a shard must still fit 32 bits.
TEST(EmbeddingQ4, plans_tables_past_32_bits) {
  DeviceProfile profile;
  profile.limits.max_buffer_size = 1ULL << 40;
  profile.limits.max_storage_binding_size = 1ULL << 40;
  auto t = table(20'000'000, 2048, 32, {5});  // 20 GB
  const auto plan = make(t.b, profile);
  ASSERT_TRUE(plan) << plan.error().message;
  std::uint64_t end = 0;
  for (const auto& u : (*plan)->layout().uploads) {
    EXPECT_LE(u.bytes, 0xffffffffULL);
    if (u.constant != 0) continue;
    EXPECT_EQ(u.source_offset, end);
    end = u.source_offset + u.bytes;
  }
  EXPECT_EQ(end, 20'000'000ULL * 1024);
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  EXPECT_GE(stepper.dispatches().size(), 5U);
}

TEST(EmbeddingQ4, names_a_count_past_32_bits_before_anything_is_allocated) {
  DeviceProfile profile;
  profile.limits.max_buffer_size = 1ULL << 40;
  profile.limits.max_storage_binding_size = 1ULL << 40;
  auto t = table(10, 1 << 20, 32, {8192});
  EXPECT_MENTIONS(error_of(t.b, profile), "[8192, 1048576]");
}

TEST(EmbeddingQ4, checks_computed_ids_on_the_device) {
  GraphBuilder b;
  const auto weight = b.constant(DType::u8, {10, 16});
  const auto scales = b.constant(DType::f32, {10, 1});
  const auto ids = b.input(b.tensor(DType::i32, {2, 3}));
  const auto one = b.constant(DType::i32, {});
  const auto next = b.add(ids, one, {2, 3}, DType::i32);
  b.output(b.embedding_q4(weight, scales, 32, next));
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE((*plan)->layout().can_fault);
  EXPECT_TRUE((*plan)->layout().inputs[0].checks.empty());
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  const std::array<std::uint32_t, kFaultWords> fault{2, 4, static_cast<std::uint32_t>(-7), 0};
  const auto error = stepper.describe_fault(fault);
  EXPECT_EQ(error.code, ErrorCode::out_of_range);
  EXPECT_EQ(error.message, "et_vk.embedding_q4gsw.default: indices[1, 1] is -7, but the table has 10 rows");
}

TEST(EmbeddingQ4, checks_ids_seen_through_a_view_on_the_host) {
  GraphBuilder b;
  const auto weight = b.constant(DType::u8, {10, 16});
  const auto scales = b.constant(DType::f32, {10, 1});
  const auto ids = b.input(b.tensor(DType::i32, {2, 3}));
  b.output(b.embedding_q4(weight, scales, 32, b.view(ids, {6})));
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE((*plan)->layout().can_fault);
  EXPECT_EQ((*plan)->layout().inputs[0].checks.size(), 1U);
}

// --- pipelines ---

TEST(Pipelines, are_shared_by_ops_of_the_same_kind) {
  GraphBuilder b;
  auto v = b.input(b.tensor(DType::f32, {8}));
  for (int i = 0; i < 5; ++i) v = b.add(v, v, {8});
  b.output(v);
  const auto plan = make(b);
  ASSERT_TRUE(plan);
  EXPECT_EQ((*plan)->layout().pipelines.size(), 1U);
}

TEST(Pipelines, of_small_and_large_calls_are_known_at_load) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {8, 8}));
  const auto y = b.input(b.tensor(DType::f32, {8, 8}));
  b.output(b.add(x, y, {8, 8}));
  const auto plan = make(b);
  ASSERT_TRUE(plan);
  const auto known = (*plan)->layout().pipelines.size();
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.set_shape(0, {1, 1}));
  ASSERT_TRUE(stepper.set_shape(1, {1, 1}));
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.pipelines().size(), known);
}

TEST(Pipelines, read_float16_as_it_is_where_the_device_can) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f16, {8}));
  b.output(b.add(x, x, {8}, DType::f16));
  DeviceProfile profile;
  const auto packed = make(b, profile);
  ASSERT_TRUE(packed);
  EXPECT_EQ((*packed)->layout().pipelines[0].wgsl.find("f16;"), std::string::npos);
  profile.shader_f16 = true;
  const auto native = make(b, profile);
  ASSERT_TRUE(native);
  const std::string& wgsl = (*native)->layout().pipelines[0].wgsl;
  EXPECT_TRUE(wgsl.starts_with("enable f16;")) << wgsl;
  EXPECT_NE(wgsl.find("array<vec4<f16>>"), std::string::npos);
  EXPECT_NE(wgsl.find("pack_half"), std::string::npos) << "what is written is packed";
}

TEST(Pipelines, ask_for_subgroups_only_where_they_are_used) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {4, 32}));
  const auto weight = b.constant(DType::u8, {64, 16});
  const auto scales = b.constant(DType::f32, {1, 64});
  const auto out = b.tensor(DType::f32, {4, 64});
  b.op("et_vk.linear_q4gsw.default", {x, weight, scales, b.integer(32), b.null(), out});
  b.output(out);
  DeviceProfile profile;
  profile.kind = AdapterKind::cpu;
  const auto texts = [&] {
    const auto plan = make(b, profile);
    EXPECT_TRUE(plan) << plan.error().message;
    std::string all;
    for (const auto& one : (*plan)->layout().pipelines) all += one.wgsl;
    return all;
  };
  EXPECT_EQ(texts().find("quadBroadcast("), std::string::npos);
  profile.subgroups = true;
  profile.subgroup_max = 4;
  EXPECT_NE(texts().find("quadBroadcast"), std::string::npos);
  EXPECT_FALSE(texts().starts_with("enable")) << "naga knows them without";
  profile.subgroups_need_enable = true;
  EXPECT_TRUE(texts().starts_with("enable subgroups;"));
  profile.kind = AdapterKind::discrete;
  EXPECT_EQ(texts().find("quadBroadcast("), std::string::npos);
}

TEST(Pipelines, of_small_dispatches_are_cut_finer_on_cpu_adapters) {
  DeviceProfile profile;
  profile.kind = AdapterKind::cpu;
  auto t = table(10, 2048, 32, {64});
  const auto plan = make(t.b, profile);
  ASSERT_TRUE(plan);
  ASSERT_EQ((*plan)->layout().pipelines.size(), 2U) << "one for large calls, one for small ones";
  Stepper stepper(*plan);
  for (const auto& [ids, groups] : {std::pair{1, 4U}, {4, 16U}, {5, 5U}, {64, 64U}}) {
    ASSERT_TRUE(stepper.set_shape(0, {ids}));
    ASSERT_TRUE(stepper.update());
    EXPECT_EQ(stepper.dispatches()[0]->grid[0], groups) << ids;
  }
  EXPECT_EQ(stepper.pipelines().size(), 2U);
}

// --- SymInts ---

TEST(SymInts, flow_from_sizes_and_data_to_shapes) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {6, 4}));
  const auto position = b.input(b.tensor(DType::i32, {1}));
  const auto n = b.symint();
  const auto p = b.symint();
  const auto n2 = b.symint();
  b.op("sym_size.int", {x, b.integer(0), n});
  b.op("et_vk.select_as_symint.default", {position, b.integer(0), b.integer(-1), p});
  b.op("mul", {n, b.integer(2), n2});
  const auto out = b.tensor(DType::f32, {12, 2});
  b.op("aten.view_copy.default", {x, b.list({n2, b.integer(2)}), out});
  b.output(out);
  b.output(p);
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE((*plan)->layout().inputs[1].host_read);
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.set_shape(0, {3, 4}));
  const std::int32_t data[] = {41};
  stepper.set_host_data(1, data);
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.output_shape(0), (Shape{6, 2}));
  EXPECT_EQ(stepper.output_int(1), 41);
}

TEST(SymInts, a_size_that_only_the_data_tells_has_room_for_its_dispatch) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {6, 4}));
  const auto n = b.input(b.symint());
  const auto head = b.tensor(DType::f32, {6, 4});
  b.op("aten.slice_copy.Tensor", {x, b.integer(0), b.integer(0), n, b.integer(1), head});
  b.output(head);
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ((*plan)->layout().max_dispatches, 1U);
  Stepper stepper(*plan);
  for (const std::int64_t count : {3, 6, 0, 1}) {
    ASSERT_TRUE(stepper.set_int(1, count));
    const auto status = stepper.update();
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(stepper.output_shape(0), (Shape{count, 4}));
  }
}

TEST(SymInts, what_fits_for_every_size_need_not_fit_for_the_largest_of_each) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {6, 4}));
  const auto n = b.input(b.symint());
  const auto head = b.tensor(DType::f32, {6, 4});
  const auto tail = b.tensor(DType::f32, {6, 4});
  const auto both = b.tensor(DType::f32, {6, 4});
  b.op("aten.slice_copy.Tensor", {x, b.integer(0), b.integer(0), n, b.integer(1), head});
  b.op("aten.slice_copy.Tensor", {x, b.integer(0), n, b.null(), b.integer(1), tail});
  b.op("aten.cat.default", {b.list({tail, head}), b.integer(0), both});
  b.output(both);
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  for (const std::int64_t count : {3, 6, 0, 1}) {
    ASSERT_TRUE(stepper.set_int(1, count));
    const auto status = stepper.update();
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(stepper.output_shape(0), (Shape{6, 4}));
  }
}

TEST(SymInts, sizes_below_zero_or_above_the_bound_are_refused) {
  GraphBuilder b;
  const auto n = b.input(b.symint());
  const auto out = b.tensor(DType::f32, {4, 6});
  b.op("aten.full.default", {b.list({n, b.integer(6)}), b.number(1), b.null(), b.null(), b.null(), b.null(), out});
  b.output(out);
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  for (const std::int64_t size : {-1, 5}) {
    ASSERT_TRUE(stepper.set_int(0, size));
    const auto status = stepper.update();
    ASSERT_FALSE(status);
    EXPECT_TRUE(status.error().message.contains(std::to_string(size))) << status.error().message;
  }
  ASSERT_TRUE(stepper.set_int(0, 4));
  EXPECT_TRUE(stepper.update());
}

TEST(SymInts, what_the_device_cannot_do_is_told_at_load) {
  GraphBuilder b;
  const auto table = b.constant(DType::f32, {64, 16});
  const auto n = b.input(b.symint());
  const auto out = b.tensor(DType::f32, {64, 16});
  b.op("aten.slice_copy.Tensor", {table, b.integer(0), b.integer(0), n, b.integer(1), out});
  b.output(out);
  PlanOptions options;
  options.max_shard_bytes = 1024;
  const auto plan = Plan::make(b.graph, {}, options, ops::registry());
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message,
            "aten.slice_copy.Tensor: self takes 4096 bytes, more than one binding on this device shows");
}

TEST(SymInts, floordiv_rounds_down_and_refuses_zero) {
  GraphBuilder b;
  const auto x = b.input(b.symint());
  const auto y = b.input(b.symint());
  const auto out = b.symint();
  b.op("floordiv", {x, y, out});
  b.output(out);
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  const auto run = [&](std::int64_t a, std::int64_t c) -> Result<std::int64_t> {
    TRY(stepper.set_int(0, a));
    TRY(stepper.set_int(1, c));
    TRY(stepper.update());
    return stepper.output_int(0);
  };
  EXPECT_EQ(*run(7, 2), 3);
  EXPECT_EQ(*run(-7, 2), -4);
  EXPECT_EQ(*run(7, -2), -4);
  EXPECT_EQ(*run(-8, 2), -4);
  EXPECT_FALSE(run(1, 0));
  EXPECT_FALSE(run(std::numeric_limits<std::int64_t>::min(), -1));
  EXPECT_EQ(*run(9, 4), 2) << "a failed call does not spoil the next";
}

}  // namespace
}  // namespace nibble
