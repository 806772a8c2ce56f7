// Kernels that may run without bounds checks never index outside: tried with any data, at random shapes, by a build of
// each that looks at every index.
#include <cstdlib>
#include <filesystem>

#include "fuzz/plan_and_step.hpp"
#include "gpu_fixture.hpp"
#include "program/file.hpp"
#include "program/program.hpp"
#include "support/graph_builder.hpp"
#include "support/run_checked.hpp"

namespace nibble::test {
namespace {

namespace fs = std::filesystem;

class ProvenTest : public GpuTest {
 protected:
  gpu::Device& on_gpu() { return *Internals::of(device)->gpu; }

  /// An index outside in random calls of a graph, with variants that the seed forces; or "".
  std::string find_outside(const Graph& graph, AdapterKind kind, std::uint32_t seed, int calls) {
    auto profile = on_gpu().profile();
    profile.kind = kind;
    profile.unchecked_kernels = true;
    auto options = forced_by(seed);
    options.unchecked = true;
    const auto plan = Plan::make(graph, profile, options, ops::registry());
    if (!plan) return plan.error().code == ErrorCode::internal ? plan.error().message : "";
    RandomCalls random(*plan, seed);
    random.check = [&](const Stepper& stepper) {
      const auto found = runs.find_outside(stepper);
      return found ? *found : found.error().message;
    };
    return random.find_bug(calls);
  }

  CheckedRuns runs{*Internals::of(device)->gpu};
};

/// x of at most 9 rows, through what has kernels that are proven; products whose tiles fit and others.
Graph mixed(std::int64_t width, std::int64_t columns) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {9, width}));
  const auto row = b.input(b.tensor(DType::f32, {width}));
  const auto normed = b.tensor(DType::f32, {9, width});
  b.op("aten.native_layer_norm.default",
       {x, b.ints({width}), b.constant(DType::f32, {width}, "w"), b.constant(DType::f32, {width}, "b"), b.number(1e-5),
        b.list({normed, b.tensor(DType::f32, {9, 1}), b.tensor(DType::f32, {9, 1})})});
  const auto product = b.tensor(DType::f32, {9, columns});
  b.op("et_vk.linear_q4gsw.default",
       {b.add(normed, row, {9, width}), b.constant(DType::u8, {columns, width / 2}, "weight"),
        b.constant(DType::f32, {width / 4, columns}, "scales"), b.integer(4), b.null(), product});
  const auto softmax = b.tensor(DType::f32, {9, columns});
  b.op("aten._softmax.default", {product, b.integer(-1), b.boolean(false), softmax});
  const auto turned = b.tensor(DType::f32, {columns, 9});
  b.op("aten.permute_copy.default", {softmax, b.ints({1, 0}), turned});
  const auto mean = b.tensor(DType::f32, {columns, 1});
  b.op("aten.mean.dim", {turned, b.ints({-1}), b.boolean(true), b.null(), mean});
  const auto exp = b.tensor(DType::f32, {columns, 9});
  b.op("aten.exp.default", {turned, exp});
  b.output(exp);
  b.output(mean);
  return std::move(b.graph);
}

TEST_F(ProvenTest, an_index_outside_is_found) {
  const PipelineDesc desc{.label = "wrong",
                          .wgsl = R"(override WG: u32 = 64u;
struct Params { first_group: u32, }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> result: array<vec4<f32>>;
var<workgroup> tile: array<f32, 64>;
@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) lane: u32) {
  var own = array<f32, 4>();
  tile[lane] = result[lane / 4u][lane % 4u];
  result[0][0] = tile[lane + 1u] + own[lane & 3u];
})",
                          .bindings = {Access::read_write},
                          .overrides = {{"WG", 64}},
                          .unchecked = true};
  Layout layout;
  layout.buffers.resize(1);
  layout.buffers[0].bytes = 256;
  Dispatch dispatch{.grid = {1, 1, 1}, .binding_count = 1, .params_bytes = 4};
  const auto found = runs.run(dispatch, desc, layout);
  ASSERT_TRUE(succeeds(found));
  EXPECT_EQ(*found, "wrong: tile[lane+1u] with index 64");
  layout.buffers[0].bytes = 240;
  EXPECT_EQ(runs.run(dispatch, desc, layout).value(), "wrong: result[lane/4u] with index 15");
}

TEST_F(ProvenTest, kernels_of_many_kinds_stay_inside_at_random_shapes) {
  for (const auto& graph : {mixed(64, 64), mixed(36, 10), mixed(96, 33)}) {
    for (const auto kind : {AdapterKind::cpu, AdapterKind::discrete}) {
      for (std::uint32_t seed = 0; seed < 4; ++seed) EXPECT_EQ(find_outside(graph, kind, seed, 3), "") << seed;
    }
  }
  EXPECT_GE(runs.kernels().size(), 6U) << "few kernels are proven";
}

/// The case table, as far as it is exported.
TEST_F(ProvenTest, kernels_of_exported_programs_stay_inside) {
  const char* folder = std::getenv("NIBBLE_PROGRAMS");
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder != nullptr ? folder : "", missing)) {
    if (!fs::exists(entry.path() / "model.pte")) continue;
    const auto file = File::open(entry.path() / "model.pte");
    ASSERT_TRUE(file);
    const auto program = read_program(*file);
    if (!program) continue;  // one that only ExecuTorch runs
    for (std::uint32_t seed = 0; seed < 4; ++seed) {
      const auto kind = seed < 2 ? AdapterKind::discrete : AdapterKind::cpu;
      EXPECT_EQ(find_outside(program->graph, kind, seed, 4), "") << entry.path().filename() << ", seed " << seed;
    }
  }
  if (runs.runs() == 0) GTEST_SKIP() << "no programs in $NIBBLE_PROGRAMS";
  for (const auto& [name, count] : runs.kernels()) RecordProperty(name, static_cast<int>(count));
}

TEST_F(ProvenTest, a_program_computes_the_same_without_checks) {
  const auto value = [&](bool unchecked) {
    BlobBuilder b;
    const int x = b.tensor(DType::f32, {3, 20});
    const int sum = b.tensor(DType::f32, {3, 20});
    const int out = b.tensor(DType::f32, {3, 20});
    b.op("aten.add.Tensor", {x, x, b.integer(1), sum});
    b.op("aten._softmax.default", {sum, b.integer(-1), b.boolean(false), out});
    b.inputs({x});
    b.outputs({out});
    auto loaded = load(b, {{.unchecked = unchecked}});
    EXPECT_TRUE(succeeds(loaded));
    std::vector<float> given(60);
    for (std::size_t i = 0; i < given.size(); ++i) given[i] = static_cast<float>(i % 7);
    return call<float>(loaded->session, {tensor(DType::f32, {3, 20}, given)}, DType::f32);
  };
  EXPECT_EQ(value(false).value(), value(true).value());
}

TEST_F(ProvenTest, only_the_option_and_the_engine_together_leave_checks_out) {
  for (const bool option : {false, true}) {
    for (const bool engine : {false, true}) {
      auto profile = on_gpu().profile();
      profile.unchecked_kernels = engine;
      Options options{.unchecked = option};
      options.variants = {{"bounds", "unchecked"}};
      const auto plan = Plan::make(mixed(64, 64), profile, options, ops::registry());
      ASSERT_TRUE(succeeds(plan));
      EXPECT_EQ(std::ranges::any_of((*plan)->layout().pipelines, &PipelineDesc::unchecked), option && engine);
    }
  }
  EXPECT_EQ(on_gpu().profile().unchecked_kernels, on_gpu().engine().name() == "wgpu");
}

}  // namespace
}  // namespace nibble::test
