// One of two tensors, element by element, by a third; all three broadcast.
#include "ops/elementwise.hpp"
#include "ops/ops.hpp"
#include "ops/strides.hpp"
#include "wgsl.hpp"

namespace nibble::ops {

Status where(OpContext& op) {
  TRY_BIND((condition, a, b, out), op.args<Tensor, Tensor, Tensor, Out>({"condition", "self", "other", "out"}));
  if (condition.dtype != DType::boolean) return op.fail("condition must be bool, but it is {}", condition.dtype);
  // Branches are numbers in the output's type, or bools.
  const auto gives = out.dtype == DType::boolean ? Gives::bits : Gives::numbers;
  TRY_ASSIGN(const bool ints, on_ints(op, {&a, &b}, out, {"a", "a"}, gives));
  Shape branches;
  Shape shape;
  if (!broadcast(a.shape, b.shape, branches) || !broadcast(condition.shape, branches, shape)) {
    return op.fail("shapes {}, {} and {} do not broadcast", condition.shape, a.shape, b.shape);
  }
  TRY(op.set_shape(out, shape));

  struct Params {
    std::uint32_t quads = 0;
    std::uint32_t rank = 0;
    std::array<std::uint32_t, 2> pad{};
    Dims sizes{};
    std::array<Dims, 3> strides{};
  } params;
  params.quads = static_cast<std::uint32_t>(Size::of(shape).div_up(4).unchecked());
  params.rank = collapse_broadcast(shape, std::array{condition.shape, a.shape, b.shape}, params.sizes, params.strides);
  const auto reading = [&](const Tensor& t, const Dims& strides) {
    return static_cast<double>(
        reading_of(t.shape, shape, op.bound(t), op.bound(out), params.rank, params.sizes, strides));
  };
  return op.dispatch(
      {.shader = wgsl::where,
       .bind = {op.read("condition", condition), op.read("a", a), op.read("b", b), op.write("result", out)},
       .params = params_of(params),
       .threads = params.quads,
       .overrides = {{"CONDITION_READING", reading(condition, params.strides[0])},
                     {"A_READING", reading(a, params.strides[1])},
                     {"B_READING", reading(b, params.strides[2])}},
       .lines = {ints ? "alias T = i32;" : "alias T = f32;"}});
}

}  // namespace nibble::ops
