// Dispatches that are cut into pieces: nothing is computed twice or left out, and a call can stop between them. The
// tests of products and attention, and those in Python, compare results of many kernels with and without pieces.
#include "gpu_fixture.hpp"
#include "ops/registry.hpp"
#include "stop_checks.hpp"
#include "support/graph_builder.hpp"

namespace nibble::test {
namespace {

/// A step of AdamW, which changes states in place; what it left is the result. The states begin with zeros.
struct Training : GraphBuilder, ConstantSource {
  Shape shape;

  explicit Training(std::int64_t count) : shape{count} {
    const std::vector<ValueId> states{constant(DType::f32, shape), constant(DType::f32, shape),
                                      constant(DType::f32, shape)};
    std::vector<ValueId> args = states;
    args.push_back(input(tensor(DType::f32, shape)));
    for (const double rate : {0.125, 0.5, 0.75, 1e-3, 0.5, 1.0, 1.0}) args.push_back(number(rate));
    args.push_back(list(states));
    op("et_vk.adamw_step.default", args);
    for (const auto state : states) {
      const auto copy = tensor(DType::f32, shape);
      op("aten.clone.default", {state, null(), copy});
      output(copy);
    }
  }
  Status read(std::uint32_t, std::uint64_t, std::span<std::byte> to) override {
    std::ranges::fill(to, std::byte{});
    return {};
  }
};

class PiecesTest : public GpuTest {
 protected:
  /// The results of three calls, and how many dispatches each takes.
  Result<std::vector<Floats>> train(const Options& options, std::uint32_t most_groups, std::size_t& dispatches) {
    constexpr std::int64_t kCount = 80'003;
    Training program(kCount);
    const auto& gpu = Internals::of(device)->gpu;
    DeviceProfile profile = gpu->profile();
    profile.limits.max_workgroups_per_dimension = most_groups;
    TRY_ASSIGN(const auto plan, Plan::make(program.graph, profile, options, ops::registry()));
    TRY_ASSIGN(const auto model, gpu::ModelResources::make(gpu, plan, program, {}));
    TRY_ASSIGN(const auto executor, gpu::Executor::make(model, boundary_of(program.graph, plan), program));
    Floats gradient(kCount);
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 1021) / 64;
    std::vector<Floats> all;
    for (int step = 0; step < 3; ++step) {
      const std::vector<HostTensor> inputs{tensor(DType::f32, program.shape, gradient)};
      TRY(executor->set_inputs(inputs));
      std::vector<HostOutput> outputs;
      for (int i = 0; i < 3; ++i) all.emplace_back(kCount);
      for (int i = 3; i > 0; --i) {
        Floats& to = all[all.size() - static_cast<std::size_t>(i)];
        outputs.push_back({DType::f32, to.data(), to.size() * 4});
      }
      TRY(executor->submit(outputs));
      TRY(executor->wait(outputs));
    }
    dispatches = executor->stepper().dispatches().size();
    return all;
  }
};

TEST_F(PiecesTest, of_a_dispatch_in_place_change_each_element_once) {
  std::size_t dispatches = 0;
  const auto whole = train({}, 65535, dispatches);
  ASSERT_TRUE(succeeds(whole));
  const auto usual = dispatches;
  // Grids of one, two and three dimensions: 313 workgroups in pieces of 1, 15 and 100, at most.
  for (const auto& [work, most_groups] :
       {std::pair<std::uint64_t, std::uint32_t>{1, 65535}, {1, 7}, {4 * 64 * 15, 7}, {4 * 64 * 100, 7}}) {
    const auto pieces = train({.max_batch_work = work}, most_groups, dispatches);
    ASSERT_TRUE(succeeds(pieces));
    EXPECT_EQ(*pieces, *whole) << work << " of work, at most " << most_groups << " workgroups in each dimension";
    EXPECT_GE(dispatches, usual + 3);
  }
}

TEST_F(PiecesTest, a_call_stops_in_the_middle_of_one_dispatch) {
  constexpr std::int64_t kSide = 256;
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {kSide, kSide});
  const int out = b.tensor(DType::f32, {kSide, kSide});
  b.op("aten.mm.default", {x, x, out});
  b.inputs({x});
  b.outputs({out});
  const Floats ones(kSide * kSide, 1);
  auto loaded = load(b, {{.max_batch_work = kSide * kSide * kSide / 4 / 32}});
  ASSERT_TRUE(succeeds(loaded));
  const auto product = [&] {
    return call<float>(loaded->session, {tensor(DType::f32, {kSide, kSide}, ones)}, DType::f32);
  };
  {
    const Questions questions(3);
    const auto stopped = product();
    ASSERT_TRUE(fails_with(stopped, "the call was cancelled after 4 of its 32 dispatches"));
    EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
  }
  const auto whole = product();
  ASSERT_TRUE(succeeds(whole));
  EXPECT_EQ(*whole, Floats(kSide * kSide, kSide));
}

TEST_F(PiecesTest, a_load_stops_in_the_middle_of_one_dispatch) {
  constexpr std::int64_t kCount = 1 << 14;
  const Floats ones(kCount, 1);
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {kCount});
  const int made = b.tensor(DType::f32, {kCount});
  const int out = b.tensor(DType::f32, {kCount});
  const int one = b.constant(DType::f32, {kCount}, ones);
  b.op("aten.add.Tensor", {one, one, b.integer(1), made});
  b.op("aten.mul.Tensor", {x, made, out});
  b.inputs({x});
  b.outputs({out});
  const LoadOptions options{{.max_batch_work = 1}};
  {
    auto loaded = load(b, options);
    ASSERT_TRUE(succeeds(loaded));
    const auto twos = call<float>(loaded->session, {tensor(DType::f32, {kCount}, ones)}, DType::f32);
    ASSERT_TRUE(succeeds(twos));
    EXPECT_EQ(*twos, Floats(kCount, 2));
  }
  // There are two kernels and one upload: whatever is asked later is asked between the 64 pieces of the sum.
  const Questions questions(30);
  EXPECT_TRUE(fails_with(load(b, options), "loading was cancelled"));
}

}  // namespace
}  // namespace nibble::test
