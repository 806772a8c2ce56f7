// The audit's counts of kernels whose answers are known: traced on the device.
#include "gpu_fixture.hpp"
#include "support/run_traced.hpp"

namespace nibble::test {
namespace {

/// Kernels of 64 threads over `source` and `result`.
std::string kernel(std::string_view tiles, std::string_view body) {
  return fmt::format(R"(
override WG: u32 = 64u;
struct Params {{ first_group: u32, }}
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<f32>;
@group(0) @binding(2) var<storage, read_write> result: array<f32>;
{}
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
let i = id.x + WG * params.first_group;
{}
}}
)",
                     tiles, body);
}

class AuditTest : public GpuTest {
 protected:
  Result<Counts> counts(std::string_view tiles, std::string_view body, std::uint32_t subgroup = 32) {
    auto& gpu = *Internals::of(device)->gpu;
    constexpr std::uint64_t kBytes = 256ULL * 1024;
    const auto make = [&] {
      return gpu.make_buffer(kBytes, WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst, "data");
    };
    TRY_ASSIGN(const auto from, make());
    TRY_ASSIGN(const auto to, make());
    const PipelineDesc desc{.label = "audited",
                            .wgsl = kernel(tiles, body),
                            .bindings = {Access::read, Access::read_write},
                            .overrides = {{"WG", 64}}};
    TRY_ASSIGN(const auto run, run_traced(gpu, desc, {from.get(), to.get()}, {}, 3, 2, 64, 256, subgroup));
    return count(run.kernel, run.trace, subgroup);
  }
};

constexpr std::size_t kSource = 0;
constexpr std::size_t kResult = 1;
constexpr std::size_t kTile = 2;

TEST_F(AuditTest, a_copy_moves_what_it_needs) {
  for (const std::uint32_t subgroup : {32U, 64U}) {
    const auto counted = counts("", "result[i] = source[i];", subgroup);
    ASSERT_TRUE(succeeds(counted));
    EXPECT_EQ(counted->groups, 2U);
    EXPECT_DOUBLE_EQ(counted->arrays[kSource].ratio(), 1.0);
    EXPECT_DOUBLE_EQ(counted->arrays[kResult].ratio(), 1.0);
    EXPECT_EQ(counted->arrays[kSource].useful, 2U * 64 * 4);
    EXPECT_EQ(counted->arrays[kSource].stores + counted->arrays[kResult].loads, 0U);
    EXPECT_FALSE(counted->is_cut());
  }
}

TEST_F(AuditTest, a_stride_of_two_moves_twice_as_much) {
  const auto counted = counts("", "result[i] = source[2u * i];");
  ASSERT_TRUE(succeeds(counted));
  EXPECT_DOUBLE_EQ(counted->arrays[kSource].ratio(), 2.0);
}

TEST_F(AuditTest, a_stride_of_32_moves_a_sector_for_each_thread) {
  const auto counted = counts("", "result[i] = source[32u * i];");
  ASSERT_TRUE(succeeds(counted));
  EXPECT_DOUBLE_EQ(counted->arrays[kSource].ratio(), 8.0);
}

TEST_F(AuditTest, threads_that_read_the_same_share_it) {
  const auto counted = counts("", "result[i] = source[i / 64u];");
  ASSERT_TRUE(succeeds(counted));
  EXPECT_DOUBLE_EQ(counted->arrays[kSource].ratio(), 0.25);
  EXPECT_EQ(counted->arrays[kSource].group_sectors, 2U);
}

/// A transpose of two lines of 32 through workgroup memory whose lines are `pitch` long.
std::string transposed(int pitch) {
  return fmt::format(
      "for (var line = lane / 32u; line < 32u; line += 2u) {{ tile[line * {0}u + lane % 32u] = source[line * 32u + "
      "lane "
      "% 32u]; }}\n"
      "workgroupBarrier();\n"
      "for (var line = lane / 32u; line < 32u; line += 2u) {{ result[line * 32u + lane % 32u] = tile[lane % 32u * {0}u "
      "+ "
      "line]; }}",
      pitch);
}

TEST_F(AuditTest, a_transpose_without_padding_has_conflicts_of_32_ways) {
  const auto counted = counts("var<workgroup> tile: array<f32, 1056>;", transposed(32));
  ASSERT_TRUE(succeeds(counted));
  EXPECT_DOUBLE_EQ(counted->arrays[kTile].worst_conflict, 32.0);
  EXPECT_DOUBLE_EQ(counted->arrays[kSource].ratio(), 1.0);
  EXPECT_DOUBLE_EQ(counted->arrays[kResult].ratio(), 1.0);
  EXPECT_EQ(counted->barriers, 1U);
}

TEST_F(AuditTest, a_transpose_with_padding_has_no_conflicts) {
  const auto counted = counts("var<workgroup> tile: array<f32, 1056>;", transposed(33));
  ASSERT_TRUE(succeeds(counted));
  EXPECT_DOUBLE_EQ(counted->arrays[kTile].worst_conflict, 1.0);
}

TEST_F(AuditTest, the_parts_of_a_vector_are_accesses_of_their_own) {
  const auto counted =
      counts("var<workgroup> tile: array<vec4<f32>, 64>;",
             "tile[lane] = vec4<f32>(source[i]); workgroupBarrier(); result[i] = tile[lane][i & 1u] + tile[lane].y;");
  ASSERT_TRUE(succeeds(counted));
  // 64 threads store 16 bytes and load 4, twice; of the banks that loads need, a quarter or half is hit.
  EXPECT_EQ(counted->arrays[kTile].useful, 2U * 64 * (16 + 4 + 4));
  EXPECT_DOUBLE_EQ(counted->arrays[kTile].worst_conflict, 4.0);
}

TEST_F(AuditTest, workgroup_memory_is_added_up_by_its_declarations) {
  const PipelineDesc desc{.label = "audited",
                          .wgsl = kernel("const LINES = 4u * 2u;\nvar<workgroup> tile: array<vec4<f32>, LINES * WG>;",
                                         "tile[lane] = vec4<f32>(source[i]); result[i] = tile[lane].x;"),
                          .bindings = {Access::read, Access::read_write},
                          .overrides = {{"WG", 64}}};
  const auto kernel = traced(desc, 8, 32);
  ASSERT_TRUE(succeeds(kernel));
  EXPECT_EQ(kernel->arrays[kTile].bytes, 16U * 8 * 64);
}

TEST_F(AuditTest, operations_of_a_loop_count_as_often_as_it_goes_round) {
  const auto once = counts("", "result[i] = 1.0;");
  const auto often =
      counts("", "var sum = 0.0; for (var k = 0u; k < 10u; k++) { sum += source[k] * 2.0; } result[i] = sum;");
  ASSERT_TRUE(succeeds(once) && succeeds(often));
  // A round compares, counts, adds, multiplies and loads.
  EXPECT_EQ(often->operations - once->operations, 2U * 64 * 10 * 5);
}

TEST_F(AuditTest, what_has_no_room_in_the_trace_is_told) {
  const auto counted = counts("", "for (var k = 0u; k < 300u; k++) { result[i] += source[k]; }");
  ASSERT_TRUE(succeeds(counted));
  EXPECT_TRUE(counted->is_cut());
}

}  // namespace
}  // namespace nibble::test
