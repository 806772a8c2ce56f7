// Elementwise arithmetic on two tensors, with broadcasting.
#include "ops/elementwise.hpp"
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
  std::array<Dims, 2> strides{};
};

constexpr std::string_view kFloats = "alias T = f32; fn apply(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> { return";
constexpr std::string_view kInts = "alias T = i32; fn apply(a: vec4<i32>, b: vec4<i32>) -> vec4<i32> { return";
constexpr std::string_view kTruthOfFloats = "alias T = f32; fn apply(a: vec4<f32>, b: vec4<f32>) -> vec4<i32> { return";

Status binary(OpContext& op, const Expression& expression, Gives gives = Gives::numbers) {
  TRY_BIND((a, b, out), op.args<Tensor, Tensor, Out>({"self", "other", "out"}));
  return ops::binary(op, a, b, out, expression, gives);
}

Status binary_with_alpha(OpContext& op, const Expression& expression) {
  TRY_BIND((a, b, alpha, out), op.args<Tensor, Tensor, Number, Out>({"self", "other", "alpha", "out"}));
  return ops::binary(op, a, b, out, expression, Gives::numbers, alpha);
}

}  // namespace

Status binary(OpContext& op, const Tensor& a, const Tensor& b, Out& out, const Expression& expression, Gives gives,
              const Number& alpha) {
  TRY_ASSIGN(const bool ints, on_ints(op, {&a, &b}, out, expression, gives));
  if (ints && (!alpha.is_integer || alpha.integer != static_cast<std::int32_t>(alpha.integer))) {
    return op.fail("alpha must be a 32-bit integer for integer operands, but it is {}", alpha.value);
  }
  Shape shape;
  if (!broadcast(a.shape, b.shape, shape)) return op.fail("shapes {} and {} do not broadcast", a.shape, b.shape);
  TRY(op.set_shape(out, shape));

  Params params;
  params.quads = static_cast<std::uint32_t>(Size::of(shape).div_up(4).unchecked());
  params.alpha = static_cast<float>(alpha.value);
  params.alpha_int = static_cast<std::int32_t>(alpha.integer);
  params.rank = collapse_broadcast(shape, std::array{a.shape, b.shape}, params.sizes, params.strides);
  const auto reading = [&](const Tensor& t, const Dims& strides) {
    return static_cast<double>(
        reading_of(t.shape, shape, op.bound(t), op.bound(out), params.rank, params.sizes, strides));
  };
  const auto head = ints ? kInts : gives == Gives::truth ? kTruthOfFloats : kFloats;
  return op.dispatch(
      {.shader = wgsl::binary,
       .bind = {op.read("a", a), op.read("b", b), op.write("result", out)},
       .params = params_of(params),
       .threads = params.quads,
       .overrides = {{"A_READING", reading(a, params.strides[0])}, {"B_READING", reading(b, params.strides[1])}},
       .lines = {expression.functions, head, ints ? expression.on_ints : expression.on_floats, "; }"}});
}

Status add(OpContext& op) { return binary_with_alpha(op, {"a + params.alpha * b", "a + params.alpha_int * b"}); }
Status sub(OpContext& op) { return binary_with_alpha(op, {"a - params.alpha * b", "a - params.alpha_int * b"}); }
Status mul(OpContext& op) { return binary(op, {"a * b", "a * b"}); }
Status div(OpContext& op) { return binary(op, {"a / b"}); }
Status minimum(OpContext& op) { return binary(op, {"minimum(a, b)", "min(a, b)", wgsl::math.body}); }
Status maximum(OpContext& op) { return binary(op, {"maximum(a, b)", "max(a, b)", wgsl::math.body}); }
Status pow_tensor(OpContext& op) { return binary(op, {"power(a, b)", "power_of_ints(a, b)", wgsl::math.body}); }

Status div_mode(OpContext& op) {
  TRY_BIND((a, b, mode, out),
           op.args<Tensor, Tensor, std::optional<std::string_view>, Out>({"self", "other", "rounding_mode", "out"}));
  if (!mode) return binary(op, a, b, out, {"a / b"});
  if (*mode == "floor")
    return binary(op, a, b, out, {"floor_quotient(a, b)", "floor_quotient_of_ints(a, b)", wgsl::math.body});
  if (*mode == "trunc") return binary(op, a, b, out, {"trunc(quotient(a, b))", "a / b", wgsl::math.body});
  return op.fail("rounding_mode must be floor or trunc, but it is {}", *mode);
}

Status bitwise_and(OpContext& op) { return binary(op, {"", "a & b"}, Gives::bits); }
Status bitwise_or(OpContext& op) { return binary(op, {"", "a | b"}, Gives::bits); }
Status bitwise_xor(OpContext& op) { return binary(op, {"", "a ^ b"}, Gives::bits); }

}  // namespace nibble::ops
