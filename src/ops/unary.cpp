// Elementwise functions of one tensor.
#include <algorithm>
#include <cmath>

#include "ops/elementwise.hpp"
#include "ops/ops.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

// Every function of a float here gives NaN for NaN. WGSL promises that of none, and a comparison `v != v` may be folded
// away, so the bits decide.
constexpr std::string_view kFloats =
    "alias T = f32;\n"
    "fn finish(v: vec4<f32>, r: vec4<f32>) -> vec4<f32> {\n"
    "  return select(r, v, (bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u));\n"
    "}\n"
    "fn apply(v: vec4<f32>) -> vec4<f32> { return";
constexpr std::string_view kInts =
    "alias T = i32;\n"
    "fn finish(v: vec4<i32>, r: vec4<i32>) -> vec4<i32> { return r; }\n"
    "fn apply(v: vec4<i32>) -> vec4<i32> { return";
constexpr std::string_view kTruthOfFloats =
    "alias T = f32;\n"
    "fn finish(v: vec4<f32>, r: vec4<i32>) -> vec4<i32> { return r; }\n"
    "fn apply(v: vec4<f32>) -> vec4<i32> { return";

std::int32_t saturated(double value) {
  if (std::isnan(value)) return 0;
  return static_cast<std::int32_t>(std::clamp(value, -2147483648.0, 2147483647.0));
}

Status unary(OpContext& op, const Expression& expression) {
  TRY_BIND((self, out), op.args<Tensor, Out>({"self", "out"}));
  return ops::unary(op, self, out, expression);
}

Status clamp_between(OpContext& op, const Tensor& self, Out& out, const std::optional<Number>& min,
                     const std::optional<Number>& max) {
  return ops::unary(op, self, out,
                    {"min(max(v, vec4<f32>(params.x)), vec4<f32>(params.y))",
                     "min(max(v, vec4<i32>(params.i)), vec4<i32>(params.j))"},
                    Gives::numbers, {min ? min->value : -HUGE_VAL, max ? max->value : HUGE_VAL});
}

// The powers that torch has short cuts for too: they are more precise than a general power.
Expression power_expression(double exponent) {
  if (exponent == 1) return {"v", "v"};
  if (exponent == 2) return {"v * v", "v * v"};
  if (exponent == 3) return {"v * v * v", "v * v * v"};
  if (exponent == 0.5) return {"sqrt(v)"};
  if (exponent == -0.5) return {"inverseSqrt(v)"};
  if (exponent == -1) return {"1.0 / v"};
  if (exponent == -2) return {"1.0 / (v * v)"};
  return {"power(v, vec4<f32>(params.x))", "power_of_ints(v, vec4<i32>(params.i))", wgsl::math.body};
}

}  // namespace

Status unary(OpContext& op, const Tensor& self, Out& out, const Expression& expression, Gives gives,
             const UnaryNumbers& numbers) {
  TRY_ASSIGN(const bool ints, on_ints(op, {&self}, out, expression, gives));
  TRY(op.set_shape(out, self.shape));
  struct Params {
    std::uint32_t quads;
    float x;
    float y;
    std::int32_t i;
    std::int32_t j;
  };
  const Params params{static_cast<std::uint32_t>(Size::of(out.shape).div_up(4).unchecked()),
                      static_cast<float>(numbers.x), static_cast<float>(numbers.y), saturated(numbers.x),
                      saturated(numbers.y)};
  const auto head = ints ? kInts : gives == Gives::truth ? kTruthOfFloats : kFloats;
  return op.dispatch({.shader = wgsl::unary,
                      .bind = {op.read("source", self), op.write("result", out)},
                      .params = params_of(params),
                      .threads = params.quads,
                      .lines = {expression.functions, head, ints ? expression.on_ints : expression.on_floats, "; }"}});
}

Status abs(OpContext& op) { return unary(op, {"abs(v)", "abs(v)"}); }
Status neg(OpContext& op) { return unary(op, {"-v", "-v"}); }
Status exp(OpContext& op) { return unary(op, {"exp(v)"}); }
Status sqrt(OpContext& op) { return unary(op, {"sqrt(v)"}); }
Status rsqrt(OpContext& op) { return unary(op, {"inverseSqrt(v)"}); }
Status log10(OpContext& op) { return unary(op, {"0.434294482 * logarithm(v)", "", wgsl::math.body}); }
Status sin(OpContext& op) { return unary(op, {"sine(v, 0)", "", wgsl::math.body}); }
Status cos(OpContext& op) { return unary(op, {"sine(v, 1)", "", wgsl::math.body}); }
Status tan(OpContext& op) { return unary(op, {"sine(v, 0) / sine(v, 1)", "", wgsl::math.body}); }
Status round(OpContext& op) { return unary(op, {"round(v)", "v"}); }
Status relu(OpContext& op) { return unary(op, {"max(v, vec4<f32>())", "max(v, vec4<i32>())"}); }
Status relu6(OpContext& op) {
  return unary(op, {"clamp(v, vec4<f32>(), vec4<f32>(6.0))", "clamp(v, vec4<i32>(), vec4<i32>(6))"});
}
Status sigmoid(OpContext& op) { return unary(op, {"sigmoid(v)", "", wgsl::math.body}); }
Status tanh(OpContext& op) { return unary(op, {"hyperbolic_tangent(v)", "", wgsl::math.body}); }
Status hardsigmoid(OpContext& op) { return unary(op, {"clamp(v + 3.0, vec4<f32>(), vec4<f32>(6.0)) / 6.0"}); }
Status hardswish(OpContext& op) { return unary(op, {"v * clamp(v + 3.0, vec4<f32>(), vec4<f32>(6.0)) / 6.0"}); }

Status gelu(OpContext& op) {
  TRY_BIND((self, approximate, out), op.args<Tensor, std::string_view, Out>({"self", "approximate", "out"}));
  if (approximate != "none" && approximate != "tanh") {
    return op.fail("approximate must be none or tanh, but it is {}", approximate);
  }
  return unary(op, self, out, {approximate == "none" ? "gelu(v)" : "gelu_by_tanh(v)", "", wgsl::math.body});
}

Status hardtanh(OpContext& op) {
  TRY_BIND((self, min, max, out), op.args<Tensor, Number, Number, Out>({"self", "min_val", "max_val", "out"}));
  return clamp_between(op, self, out, min, max);
}

Status clamp(OpContext& op) {
  TRY_BIND((self, min, max, out),
           op.args<Tensor, std::optional<Number>, std::optional<Number>, Out>({"self", "min", "max", "out"}));
  return clamp_between(op, self, out, min, max);
}

Status hardshrink(OpContext& op) {
  TRY_BIND((self, lambda, out), op.args<Tensor, Number, Out>({"self", "lambd", "out"}));
  return unary(op, self, out, {"select(v, vec4<f32>(), abs(v) <= vec4<f32>(params.x))"}, Gives::numbers,
               {lambda.value});
}

Status leaky_relu(OpContext& op) {
  TRY_BIND((self, slope, out), op.args<Tensor, Number, Out>({"self", "negative_slope", "out"}));
  return unary(op, self, out, {"select(params.x * v, v, v > vec4<f32>())"}, Gives::numbers, {slope.value});
}

Status pow_scalar(OpContext& op) {
  TRY_BIND((self, exponent, out), op.args<Tensor, Number, Out>({"self", "exponent", "out"}));
  if (out.dtype == DType::i32 && (exponent.value < 0 || !exponent.is_integer)) {
    return op.fail("exponent must be a whole number of at least 0 for integers, but it is {}", exponent.value);
  }
  if (exponent.value == 0) {  // also of NaN
    TRY(op.set_shape(out, self.shape));
    return fill(op, out, {1, true, 1});
  }
  return unary(op, self, out, power_expression(exponent.value), Gives::numbers, {exponent.value});
}

Status bitwise_not(OpContext& op) {
  TRY_BIND((self, out), op.args<Tensor, Out>({"self", "out"}));
  return unary(op, self, out, {"", out.dtype == DType::boolean ? "1 - v" : "~v"}, Gives::bits);
}

Status logical_not(OpContext& op) {
  TRY_BIND((self, out), op.args<Tensor, Out>({"self", "out"}));
  constexpr std::string_view kIsZero = "vec4<i32>(v == vec4<T>())";
  return unary(op, self, out, {kIsZero, kIsZero}, Gives::truth);
}

}  // namespace nibble::ops
