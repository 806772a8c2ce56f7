// Gathers from 4-bit tables: arguments, shards, checks of ids.
#include "support/expect.hpp"
#include "support/planning.hpp"

namespace nibble {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

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

TEST(EmbeddingQ4, shards_of_a_negative_size_are_refused) {
  auto t = table(1000, 64, 2, {5});
  Options options;
  options.max_shard_bytes = static_cast<std::uint64_t>(-1);
  EXPECT_TRUE(fails_with(make(t.b, {}, options), "max_shard_bytes is 18446744073709551615, but the most is"));
}

TEST(EmbeddingQ4, shards_of_table_and_scales_need_not_agree) {
  auto t = table(1000, 64, 2, {5});  // 32 bytes of nibbles and 128 of scales a row
  Options options;
  options.max_shard_bytes = 10000;
  const auto plan = make(t.b, {}, options);
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  // The row ranges of all dispatches together are each row once.
  std::uint32_t next = 0;
  for (const auto* d : stepper.dispatches()) {
    std::array<std::uint32_t, 11> p{};
    std::memcpy(p.data(), d->params.data(), sizeof(p));
    EXPECT_EQ(p[4], next);
    next = p[5];
    EXPECT_LE(p[7], p[4]);
    EXPECT_LE(p[8], p[4]);
  }
  EXPECT_EQ(next, 1000U);
}

TEST(EmbeddingQ4, refuses_a_row_that_no_buffer_holds) {
  auto t = table(1000, 64, 32, {5});
  Options options;
  options.max_shard_bytes = 16;
  EXPECT_MENTIONS(error_of(t.b, {}, options), "32 bytes, but a buffer on this device holds at most 16");
}

// A device that no machine here has: buffers of a terabyte. Offsets within a shard must still fit 32 bits.
TEST(EmbeddingQ4, plans_tables_past_32_bits) {
  DeviceProfile profile;
  profile.limits.max_buffer_size = 1ULL << 40;
  profile.limits.max_storage_binding_size = 1ULL << 40;
  auto t = table(20'000'000, 2048, 32, {5});  // 20 GB
  const auto plan = make(t.b, profile, {.max_device_bytes = 1ULL << 40});
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

}  // namespace
}  // namespace nibble
