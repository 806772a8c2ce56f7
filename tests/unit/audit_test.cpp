// The audit's rewriting of kernels and its counts, without a device.
#include <gtest/gtest.h>

#include "support/access_counts.hpp"
#include "support/expect.hpp"
#include "support/wgsl_text.hpp"

namespace nibble::test {
namespace {

PipelineDesc with_text(std::string text) {
  return {.label = "k", .wgsl = std::move(text), .bindings = {Access::read}, .overrides = {}};
}

constexpr std::string_view kHead = "@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;\n";

TEST(AuditTest, every_access_is_rewritten_but_those_of_a_local_variable) {
  const auto kernel =
      traced(with_text(std::string(kHead) +
                       "fn f(i: u32) -> f32 { return x[i][i & 3u] + x[x_of(i)].z; }\n"
                       "fn g() { var x = array<f32, 2>(); x[0] = x[1]; }\n"
                       "@compute @workgroup_size(WG) fn main(@builtin(workgroup_id) id: vec3<u32>) { f(id.x); }"),
             8, 32);
  ASSERT_TRUE(succeeds(kernel));
  ASSERT_EQ(kernel->sites.size(), 2U);
  EXPECT_EQ(kernel->sites[0].stride, 4U);
  EXPECT_EQ(kernel->sites[1].offset, 8U);
  EXPECT_EQ(kernel->sites[1].bytes, 4U);
  EXPECT_TRUE(kernel->sites[0].loads && !kernel->sites[0].stores);
  EXPECT_EQ(kernel->arrays[0].binding, 1U);
  EXPECT_EQ(kernel->desc.bindings.size(), 2U);
  EXPECT_NE(kernel->desc.wgsl.find("@builtin(workgroup_id) id: vec3<u32>"), std::string::npos);
}

TEST(AuditTest, structs_and_aliases_have_their_sizes) {
  const auto kernel = traced(with_text("alias T = f32;\nstruct S { a: vec3<f32>, b: T, c: T, }\n"
                                       "var<workgroup> s: array<S, 8>;\n"
                                       "@compute @workgroup_size(WG) fn main() { s[1] = s[0]; }"),
                             8, 32);
  ASSERT_TRUE(succeeds(kernel));
  EXPECT_EQ(kernel->sites[0].bytes, 32U);
  EXPECT_TRUE(kernel->sites[0].stores && !kernel->sites[0].loads);
}

TEST(AuditTest, numbers_stay_whole) {
  const std::vector<std::string_view> wanted{"0x1p-126f", "-", "1e-3", "+", "0xe", "-", "2u"};
  EXPECT_EQ(tokens_of("0x1p-126f - 1e-3 + 0xe-2u"), wanted);
}

TEST(AuditTest, an_unknown_type_is_refused) {
  EXPECT_FALSE(traced(with_text("var<workgroup> s: array<Unknown, 8>;"), 8, 32).has_value());
}

TEST(AuditTest, a_kernel_believes_subgroups_to_be_as_large_as_the_gpu_that_is_counted) {
  for (const std::uint32_t size : {32U, 64U}) {
    const auto kernel =
        traced(with_text(std::string(kHead) +
                         "struct Team { @builtin(local_invocation_index) index: u32,\n"
                         "@builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_size) size: u32, }\n"
                         "@compute @workgroup_size(WG) fn main(team: Team, @builtin(num_subgroups) n: u32) {\n"
                         "let v = x[team.size + team.lane + n]; }"),
               8, size);
    ASSERT_TRUE(succeeds(kernel));
    const auto has = [&](const std::string& text) { return kernel->desc.wgsl.find(text) != std::string::npos; };
    EXPECT_TRUE(has(fmt::format("traced_team.size = {}u;", size))) << kernel->desc.wgsl;
    EXPECT_TRUE(has(fmt::format("traced_team.lane = team.index % {}u;", size)));
    EXPECT_TRUE(has(fmt::format("traced_main(traced_team, (WG + {}u) / {}u", size - 1, size)));
  }
}

/// 64 threads with one access each, of four bytes.
Counts one_access(bool is_workgroup, std::uint32_t stride, std::uint32_t subgroup) {
  TracedKernel kernel;
  kernel.arrays = {{.name = "a", .is_workgroup = is_workgroup}};
  kernel.sites = {{.array = 0, .stride = 4, .bytes = 4, .loads = true}};
  KernelTrace trace{.workgroup = 64, .lanes = {}};
  for (std::uint32_t i = 0; i < 64; ++i) trace.lanes.push_back({.accesses = {{0, i * stride}}});
  return count(kernel, trace, subgroup);
}

TEST(AuditTest, sectors_and_banks_follow_the_stride) {
  EXPECT_DOUBLE_EQ(one_access(false, 1, 32).arrays[0].ratio(), 1.0);
  EXPECT_DOUBLE_EQ(one_access(false, 2, 32).arrays[0].ratio(), 2.0);
  EXPECT_DOUBLE_EQ(one_access(false, 32, 64).arrays[0].ratio(), 8.0);
  EXPECT_DOUBLE_EQ(one_access(true, 1, 32).arrays[0].worst_conflict, 1.0);
  EXPECT_DOUBLE_EQ(one_access(true, 2, 32).arrays[0].worst_conflict, 2.0);
  EXPECT_DOUBLE_EQ(one_access(true, 32, 32).arrays[0].worst_conflict, 32.0);
  EXPECT_DOUBLE_EQ(one_access(true, 33, 32).arrays[0].worst_conflict, 1.0);
  // 64 words take two rounds at least.
  EXPECT_DOUBLE_EQ(one_access(true, 1, 64).arrays[0].worst_conflict, 1.0);
}

}  // namespace
}  // namespace nibble::test
