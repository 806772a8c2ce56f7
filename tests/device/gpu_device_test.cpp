#include "api/profile_json.hpp"
#include "gpu/adapters.hpp"
#include "gpu_fixture.hpp"

namespace nibble::test {
namespace {

DeviceProfile profile(std::string name, AdapterKind kind) {
  DeviceProfile out;
  out.name = std::move(name);
  out.kind = kind;
  out.engine = "wgpu";
  return out;
}

TEST(ChooseAdapter, takes_the_best_kind_without_a_selector) {
  const std::vector<DeviceProfile> all = {profile("llvmpipe", AdapterKind::cpu),
                                          profile("UHD", AdapterKind::integrated),
                                          profile("RTX", AdapterKind::discrete)};
  EXPECT_EQ(*gpu::choose(all, ""), 2U);
  EXPECT_EQ(*gpu::choose(std::span(all).first(2), ""), 1U);
}

TEST(ChooseAdapter, knows_index_kind_and_a_part_of_a_name_in_any_case) {
  const std::vector<DeviceProfile> all = {profile("llvmpipe (LLVM 15)", AdapterKind::cpu),
                                          profile("SwiftShader Device", AdapterKind::cpu),
                                          profile("GeForce 4090", AdapterKind::discrete)};
  EXPECT_EQ(*gpu::choose(all, "1"), 1U);
  EXPECT_EQ(*gpu::choose(all, "CPU"), 0U);
  EXPECT_EQ(*gpu::choose(all, "discrete"), 2U);
  EXPECT_EQ(*gpu::choose(all, "swiftshader"), 1U);
  EXPECT_EQ(*gpu::choose(all, "4090"), 2U) << "a number that is no index may be a part of a name";
  EXPECT_TRUE(
      fails_with(gpu::choose(all, "7"), "no device matches \"7\"; there are: 0: llvmpipe (LLVM 15) (cpu, wgpu), 1: "));
  EXPECT_TRUE(fails_with(gpu::choose(all, "radeon"), "no device matches \"radeon\""));
  EXPECT_TRUE(fails_with(gpu::choose({}, "cpu"), "no GPU adapter was found"));
}

TEST(DeviceProfileJson, survives_the_way_there_and_back) {
  DeviceProfile from = profile("a \"phone\"", AdapterKind::integrated);
  from.limits.max_buffer_size = std::uint64_t{1} << 40;
  from.shader_f16 = true;
  const auto back = profile_from_json(profile_to_json(from));
  ASSERT_TRUE(succeeds(back));
  EXPECT_EQ(back->name, from.name);
  EXPECT_EQ(back->kind, from.kind);
  EXPECT_EQ(back->limits.max_buffer_size, from.limits.max_buffer_size);
  EXPECT_TRUE(back->shader_f16);
}

TEST(DeviceProfileJson, names_the_field_that_is_wrong) {
  const std::string good = profile_to_json({});
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    return profile_from_json(text.replace(text.find(from), from.size(), to));
  };
  EXPECT_TRUE(fails_with(profile_from_json("[1"), "not a JSON object"));
  EXPECT_TRUE(fails_with(profile_from_json("{}"), "has no name"));
  EXPECT_TRUE(fails_with(with("\"max_workgroup_size_x\":256", "\"max_workgroup_size_x\":-1"),
                         "max_workgroup_size_x is not a number"));
  EXPECT_TRUE(fails_with(with("\"max_workgroup_invocations\":256", "\"max_workgroup_invocations\":5000000000"),
                         "max_workgroup_invocations is 5000000000"));
  EXPECT_TRUE(fails_with(with("\"kind\":\"unknown\"", "\"kind\":\"toaster\""), "kind is \"toaster\""));
}

TEST_F(GpuTest, the_same_adapter_is_the_same_device) {
  const auto again = Device::open(std::to_string(device.info().index));
  ASSERT_TRUE(succeeds(again));
  EXPECT_EQ(Internals::of(*again)->gpu, Internals::of(device)->gpu);
  EXPECT_TRUE(fails_with(Device::open("no such thing"), "there are: 0: "));
}

TEST_F(GpuTest, the_device_has_what_the_adapter_has) {
  const auto all = devices();
  ASSERT_TRUE(succeeds(all));
  ASSERT_LT(device.info().index, all->size());
  EXPECT_EQ((*all)[device.info().index].profile_json, device.info().profile_json);
  EXPECT_EQ(device.info().max_buffer_size % 4, 0U);
  EXPECT_TRUE(succeeds(profile_from_json(device.info().profile_json)));
}

TEST_F(GpuTest, a_bad_kernel_is_an_error_and_the_device_goes_on) {
  auto& gpu = *Internals::of(device)->gpu;
  const auto objects = device.live_objects();
  EXPECT_TRUE(
      fails_with(gpu.pipelines().get({.label = "broken", .wgsl = "fn main( {", .bindings = {}, .overrides = {}}),
                 "compiling the kernel broken failed"));
  EXPECT_TRUE(fails_with(gpu.pipelines().get({.label = "unknown override",
                                              .wgsl = "@compute @workgroup_size(1) fn main() {}",
                                              .bindings = {},
                                              .overrides = {{"NOWHERE", 1}}}),
                         "NOWHERE"));
  EXPECT_FALSE(device.lost());
  EXPECT_EQ(device.live_objects(), objects);
  EXPECT_TRUE(succeeds(gpu.pipelines().get(
      {.label = "right", .wgsl = "@compute @workgroup_size(1) fn main() {}", .bindings = {}, .overrides = {}})));
}

TEST_F(GpuTest, a_buffer_that_is_too_large_is_an_error_and_the_device_goes_on) {
  auto& gpu = *Internals::of(device)->gpu;
  EXPECT_TRUE(fails_with(gpu.make_buffer(std::uint64_t{1} << 50, WGPUBufferUsage_Storage, "making a huge buffer"),
                         "making a huge buffer failed on " + device.info().name));
  EXPECT_TRUE(succeeds(gpu.make_buffer(256, WGPUBufferUsage_Storage, "making a small one")));
}

TEST_F(GpuTest, equal_kernels_are_compiled_once) {
  auto& gpu = *Internals::of(device)->gpu;
  const auto objects = device.live_objects();
  const PipelineDesc desc{.label = "k",
                          .wgsl = "override N: u32 = 1u; @compute @workgroup_size(N) fn main() {}",
                          .bindings = {Access::read, Access::read_write},
                          .overrides = {{"N", 4}}};
  {
    const auto a = *gpu.pipelines().get(desc);
    const auto b = *gpu.pipelines().get(desc);
    EXPECT_EQ(a, b);
    auto other = desc;
    other.overrides[0].value = 8;
    const auto c = *gpu.pipelines().get(other);
    EXPECT_NE(a, c);
    EXPECT_EQ(a->module, c->module);
    EXPECT_EQ(a->layout, c->layout);
  }
  EXPECT_EQ(device.live_objects(), objects);
  const auto compiled = device.compiled_pipelines();
  EXPECT_TRUE(succeeds(gpu.pipelines().get(desc)));
  EXPECT_EQ(device.compiled_pipelines(), compiled) << "still there when nobody uses it";
}

TEST_F(GpuTest, an_error_that_no_call_waited_for_is_latched) {
  auto& gpu = *Internals::of(device)->gpu;
  WGPUBufferDescriptor descriptor{};
  descriptor.size = 3;
  descriptor.usage = WGPUBufferUsage_None;  // not allowed
  gpu::Buffer bad(gpu.engine(), gpu.call().DeviceCreateBuffer(gpu.handle(), &descriptor));
  ASSERT_TRUE(device.lost());
  EXPECT_TRUE(fails_with(gpu.make_buffer(16, WGPUBufferUsage_Storage, "x"), "the GPU reported an error"));
  EXPECT_TRUE(fails_with(load(embedding()), "the GPU reported an error"));
}

TEST_F(GpuTest, a_lost_device_fails_every_call_and_a_new_one_opens) {
  auto loaded = load(embedding());
  ASSERT_TRUE(succeeds(loaded));
  const std::vector<std::int64_t> ids = {1, 2};
  ASSERT_TRUE(succeeds(call<float>(loaded->session, {tensor(DType::i64, {1, 2}, ids)}, DType::f32)));
  Internals::of(device)->gpu->destroy_for_test();
  const auto status = call<float>(loaded->session, {tensor(DType::i64, {1, 2}, ids)}, DType::f32);
  ASSERT_TRUE(fails_with(status, "is lost"));
  EXPECT_EQ(status.error().code, ErrorCode::device_lost);
  EXPECT_TRUE(device.lost());
  EXPECT_TRUE(fails_with(loaded->session.execute({}), ""));
  const auto fresh = Device::open();
  ASSERT_TRUE(succeeds(fresh));
  EXPECT_NE(Internals::of(*fresh)->gpu, Internals::of(device)->gpu);
}

}  // namespace
}  // namespace nibble::test
