// Values that are written more than once: what reads them sees what was there at its place.
#include "gpu_fixture.hpp"

namespace nibble::test {
namespace {

/// a = relu(x), v = a view of a, a = -x, out = v * a.
BlobBuilder view_before_write(bool is_same_shape) {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {2, 4});
  const int a = b.tensor(DType::f32, {2, 4});
  const int v = b.tensor(DType::f32, is_same_shape ? std::vector<std::uint32_t>{2, 4} : std::vector<std::uint32_t>{8});
  const int back = b.tensor(DType::f32, {2, 4});
  const int out = b.tensor(DType::f32, {2, 4});
  b.op("aten.relu.default", {x, a});
  b.op("aten.view_copy.default",
       {a, b.ints(is_same_shape ? std::vector<std::int64_t>{2, 4} : std::vector<std::int64_t>{8}), v});
  b.op("aten.neg.default", {x, a});
  b.op("aten.view_copy.default", {v, b.ints({2, 4}), back});
  b.op("aten.mul.Tensor", {back, a, out});
  b.inputs({x});
  b.outputs({out});
  return b;
}

class RewrittenTest : public GpuTest {};

TEST_F(RewrittenTest, a_view_keeps_what_was_there_before_a_later_write) {
  const Floats x = {1, -2, 3, -4, 5, 6, -7, 8};
  const Floats wanted = {-1, 0, -9, 0, -25, -36, 0, -64};
  for (const bool is_same_shape : {true, false}) {
    for (const bool with_passes : {true, false}) {
      LoadOptions options;
      if (!with_passes) options.without_passes = {"views", "elementwise_chains", "common_subexpressions"};
      auto loaded = load(view_before_write(is_same_shape), options);
      ASSERT_TRUE(succeeds(loaded));
      for (int i = 0; i < 2; ++i) {
        const auto out = call<float>(loaded->session, {tensor(DType::f32, {2, 4}, x)}, DType::f32);
        ASSERT_TRUE(succeeds(out));
        EXPECT_EQ(*out, wanted) << is_same_shape << with_passes;
      }
    }
  }
}

/// y = relu(x), first = y * s; then y = -w, second = y * s: with shapes that change from call to call.
TEST_F(RewrittenTest, readers_before_and_after_a_write_see_their_own_shapes) {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {8});
  const int w = b.tensor(DType::f32, {8});
  const int s = b.tensor(DType::f32, {8});
  const int y = b.tensor(DType::f32, {8});
  const int first = b.tensor(DType::f32, {8});
  const int second = b.tensor(DType::f32, {8});
  b.op("aten.relu.default", {x, y});
  b.op("aten.mul.Tensor", {y, s, first});
  b.op("aten.neg.default", {w, y});
  b.op("aten.mul.Tensor", {y, s, second});
  b.inputs({x, w, s});
  b.outputs({first, second});
  auto loaded = load(b);
  ASSERT_TRUE(succeeds(loaded));
  for (const auto& [n, m, k] : {std::array<std::size_t, 3>{8, 5, 1}, {3, 5, 1}, {3, 7, 1}, {1, 5, 1}, {1, 5, 5}}) {
    const Floats xs(n, 2);
    const Floats ws(m, 3);
    const Floats ss(k, 5);
    const auto shape = [](std::size_t size) { return Shape{static_cast<std::int64_t>(size)}; };
    ASSERT_TRUE(succeeds(loaded->session.set_inputs(std::vector{
        tensor(DType::f32, shape(n), xs), tensor(DType::f32, shape(m), ws), tensor(DType::f32, shape(k), ss)})));
    Floats one(std::max(n, k));
    Floats two(std::max(m, k));
    const std::vector<HostOutput> outputs = {{DType::f32, one.data(), one.size() * 4},
                                             {DType::f32, two.data(), two.size() * 4}};
    ASSERT_TRUE(succeeds(loaded->session.execute(outputs)));
    EXPECT_EQ(one, Floats(std::max(n, k), 10)) << n << " " << m << " " << k;
    EXPECT_EQ(two, Floats(std::max(m, k), -15)) << n << " " << m << " " << k;
  }
}

}  // namespace
}  // namespace nibble::test
