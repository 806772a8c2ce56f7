// Elementwise arithmetic on two tensors, with broadcasting. The compute type is the output's: floats in f32, integers
// in i32; operands of another type are converted as they are loaded.
#include <utility>

#include "ops/ops.hpp"
#include "ops/strides.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

struct Params {
  std::uint32_t quads = 0;
  std::uint32_t rank = 0;
  float alpha = 1;
  std::int32_t alpha_int = 1;
  Dims sizes{};
  Dims a_strides{};
  Dims b_strides{};
};

constexpr double kDense = 0;   // element i of the output comes from element i
constexpr double kScalar = 1;  // one element for all
constexpr double kStrided = 2;

double access(const Tensor& t, const Shape& out) {
  return t.shape == out ? kDense : t.numel() == 1 ? kScalar : kStrided;
}

bool is_number(DType d) { return d == DType::f32 || d == DType::f16 || d == DType::i32; }

struct Operator {
  std::string_view on_floats;
  std::string_view on_ints;  ///< empty: integers are computed as floats
};

Status binary(OpContext& op, const Tensor& a, const Tensor& b, Number alpha, Out& out, const Operator& expression) {
  for (const Tensor* t : {&a, &b, static_cast<const Tensor*>(&out)}) {
    if (!is_number(t->dtype))
      return op.fail("{} is {}, but only float32, float16 and int32 are computed with", t->arg, t->dtype);
  }
  const bool on_ints = out.dtype == DType::i32;
  if (on_ints && (a.dtype != DType::i32 || b.dtype != DType::i32 || expression.on_ints.empty())) {
    return op.fail("the output is int32, but the operands are {} and {}", a.dtype, b.dtype);
  }
  if (on_ints && (!alpha.is_integer || alpha.integer != static_cast<std::int32_t>(alpha.integer))) {
    return op.fail("alpha must be a 32-bit integer for integer operands, but it is {}", alpha.value);
  }
  Shape shape;
  if (!broadcast(a.shape, b.shape, shape)) return op.fail("shapes {} and {} do not broadcast", a.shape, b.shape);
  TRY(op.set_shape(out, shape));

  Params params;
  params.quads = static_cast<std::uint32_t>(Size::of(shape).div_up(4).unchecked());
  params.alpha = static_cast<float>(alpha.value);
  params.alpha_int = static_cast<std::int32_t>(alpha.integer);
  params.rank = collapse_broadcast(shape, a.shape, b.shape, params.sizes, params.a_strides, params.b_strides);
  return op.dispatch(
      {.shader = wgsl::binary,
       .bind = {op.read("a", a), op.read("b", b), op.write("result", out)},
       .params = params_of(params),
       .threads = params.quads,
       .overrides = {{"A_ACCESS", access(a, shape)}, {"B_ACCESS", access(b, shape)}},
       .lines = {on_ints ? "alias T = i32;" : "alias T = f32;", on_ints ? expression.on_ints : expression.on_floats}});
}

}  // namespace

Status add(OpContext& op) {
  TRY_BIND((a, b, alpha, out), op.args<Tensor, Tensor, Number, Out>({"self", "other", "alpha", "out"}));
  return binary(op, a, b, alpha, out,
                {"fn apply(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> { return a + params.alpha * b; }",
                 "fn apply(a: vec4<i32>, b: vec4<i32>) -> vec4<i32> { return a + params.alpha_int * b; }"});
}

Status sub(OpContext& op) {
  TRY_BIND((a, b, alpha, out), op.args<Tensor, Tensor, Number, Out>({"self", "other", "alpha", "out"}));
  return binary(op, a, b, alpha, out,
                {"fn apply(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> { return a - params.alpha * b; }",
                 "fn apply(a: vec4<i32>, b: vec4<i32>) -> vec4<i32> { return a - params.alpha_int * b; }"});
}

Status mul(OpContext& op) {
  TRY_BIND((a, b, out), op.args<Tensor, Tensor, Out>({"self", "other", "out"}));
  return binary(op, a, b, {1, true, 1}, out,
                {"fn apply(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> { return a * b; }",
                 "fn apply(a: vec4<i32>, b: vec4<i32>) -> vec4<i32> { return a * b; }"});
}

Status div(OpContext& op) {
  TRY_BIND((a, b, out), op.args<Tensor, Tensor, Out>({"self", "other", "out"}));
  return binary(op, a, b, {1, true, 1}, out,
                {"fn apply(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> { return a / b; }", ""});
}

}  // namespace nibble::ops
