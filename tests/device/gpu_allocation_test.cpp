#include <array>

#include "allocations.hpp"
#include "gpu_fixture.hpp"
#include "support/small_programs.hpp"

namespace nibble::test {
namespace {

TEST_F(GpuTest, counting_sees_an_allocation) {
  allocations.counted = 0;
  allocations.counting = true;
  const auto text = std::make_unique<std::string>(100, 'x');
  allocations.counting = false;
  EXPECT_GE(allocations.counted, 2) << text->size();
}

// ids + 1 goes through the elementwise, the embedding and the reduction kernels, dynamic in length.
TEST_F(GpuTest, a_call_in_the_steady_state_allocates_nothing) {
  BlobBuilder b;
  const int ids = b.tensor(DType::i32, {1, 100});
  const int one = b.constant(DType::i32, {1}, std::vector<std::int32_t>{1});
  const int next = b.tensor(DType::i32, {1, 100});
  b.op("aten.add.Tensor", {ids, one, b.integer(1), next});
  const int rows = add_embedding(b, next, {1, 100});
  const int mean = b.tensor(DType::f32, {1, 1, kWidth});
  b.op("aten.mean.dim", {rows, b.ints({1}), b.boolean(true), b.null(), mean});
  b.inputs({ids});
  b.outputs({mean, rows});
  auto loaded = load(b);
  ASSERT_TRUE(succeeds(loaded));

  const std::vector<std::int64_t> values(100, 20);
  std::vector<double> first(kWidth);
  std::vector<float> second(100 * kWidth);
  const std::array<HostOutput, 2> outputs = {HostOutput{DType::f64, first.data(), first.size() * 8},
                                             HostOutput{DType::f32, second.data(), second.size() * 4}};
  long in_all = 0;
  for (int i = 0; i < 40; ++i) {
    const std::int64_t count = i < 20 ? 17 : 1 + 33 * (i % 4);
    const HostTensor in = tensor(DType::i64, {1, count}, values);
    allocations.counted = 0;
    allocations.counting = true;
    const auto set = loaded->session.set_inputs({&in, 1});
    const auto run = set ? loaded->session.execute(outputs) : set;
    allocations.counting = false;
    ASSERT_TRUE(succeeds(run));
    EXPECT_EQ(static_cast<float>(first[3]), embedded(21, 3));
    const bool is_steady = (i >= 1 && i < 20) || i >= 24;
    if (is_steady) in_all += allocations.counted;
  }
  EXPECT_EQ(in_all, 0);
}

// A language model's step: the place moves on, keys are split once there are enough of them.
TEST_F(GpuTest, a_decode_step_allocates_nothing) {
  constexpr std::uint32_t kPlaces = 100;
  constexpr std::size_t kStep = std::size_t{4} * 8;
  auto loaded = load(cached_attention_blob(kPlaces));
  ASSERT_TRUE(succeeds(loaded));

  const std::vector<float> ones(kStep, 1);
  std::vector<float> result(kStep);
  const HostOutput output{DType::f32, result.data(), result.size() * 4};
  for (const bool is_steady : {false, true}) {
    for (std::int64_t at = 0; at < kPlaces; ++at) {
      const std::vector<std::int64_t> position = {at};
      const HostTensor x = tensor(DType::f32, {1, 1, 4, 8}, ones);
      const std::array inputs = {x, x, x, tensor(DType::i64, {1}, position)};
      allocations.counted = 0;
      allocations.counting = true;
      const auto set = loaded->session.set_inputs(inputs);
      // In two halves, and whole.
      const bool is_split = at % 2 == 0;
      const auto run = !set       ? set
                       : is_split ? loaded->session.submit({&output, 1})
                                  : loaded->session.execute({&output, 1});
      const auto done = run && is_split ? loaded->session.wait() : run;
      allocations.counting = false;
      ASSERT_TRUE(succeeds(done)) << at;
      EXPECT_NEAR(result[5], 1, 1e-5) << at;
      EXPECT_TRUE(!is_steady || allocations.counted == 0) << allocations.counted << " at place " << at;
    }
  }
}

}  // namespace
}  // namespace nibble::test
