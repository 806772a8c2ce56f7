// Which pipelines a plan has: all that any call may need.
#include "support/planning.hpp"

namespace nibble {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

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
  Stepper stepper(*plan);
  for (const Shape& shape : {Shape{1, 1}, Shape{8, 8}, Shape{3, 5}, Shape{1, 8}, Shape{0, 8}}) {
    ASSERT_TRUE(stepper.set_shape(0, {1, shape[1]}));
    ASSERT_TRUE(stepper.set_shape(1, shape));
    const auto status = stepper.update();
    ASSERT_TRUE(status) << status.error().message;
  }
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

TEST(Pipelines, use_subgroups_on_gpus_where_their_size_is_known_or_somebody_says_so) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {4, 512}));
  const auto out = b.tensor(DType::f32, {4, 512});
  b.op("aten._softmax.default", {x, b.integer(1), b.boolean(false), out});
  b.output(out);
  DeviceProfile profile;
  profile.kind = AdapterKind::discrete;
  const auto shuffles = [&](const Options& options = {}) {
    const auto plan = Plan::make(b.graph, profile, options, ops::registry());
    EXPECT_TRUE(plan) << plan.error().message;
    return (*plan)->layout().pipelines[0].wgsl.contains("subgroupShuffleXor(");
  };
  const Options forced{.variants = {{"rows", "subgroups"}}};
  EXPECT_FALSE(shuffles());
  EXPECT_FALSE(shuffles(forced)) << "this device has none";
  profile.subgroups = true;
  EXPECT_FALSE(shuffles()) << "nobody knows how large they are";
  EXPECT_TRUE(shuffles(forced));
  profile.subgroup_min = 8;
  profile.subgroup_max = 32;
  EXPECT_FALSE(shuffles()) << "they may be small ones";
  EXPECT_TRUE(shuffles(forced));
  profile.subgroup_min = 32;
  EXPECT_TRUE(shuffles());
  EXPECT_FALSE(shuffles({.variants = {{"rows", "group"}}}));
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
}

}  // namespace
}  // namespace nibble
