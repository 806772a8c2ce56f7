// Elementwise functions of one tensor.
#include <algorithm>
#include <cmath>

#include "ops/elementwise/elementwise.hpp"
#include "ops/families.hpp"
#include "ops/move/move.hpp"

namespace nibble::ops {
namespace {

std::int32_t saturated(double value) {
  if (std::isnan(value)) return 0;
  return static_cast<std::int32_t>(std::clamp(value, -2147483648.0, 2147483647.0));
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
  return {"power(v, vec4<f32>(params.x))", "power_of_ints(v, vec4<i32>(params.i))", &wgsl::math};
}

}  // namespace

Status unary(Lowering& op, const Tensor& self, Out& out, const Expression& expression, Gives gives,
             const UnaryNumbers& numbers) {
  TRY_ASSIGN(const bool ints, on_ints(op, {&self}, out, expression, gives));
  TRY(op.set_shape(out, self.shape));
  if (op.is_joined()) {
    return join(op, {&self}, out,
                {.expression = expression.on_floats,
                 .functions = expression.functions,
                 .numbers = {static_cast<float>(numbers.x), static_cast<float>(numbers.y)},
                 .keeps_nan = true});
  }
  const wgsl::UnaryParams params{quads_of(out.shape), static_cast<float>(numbers.x), static_cast<float>(numbers.y),
                                 saturated(numbers.x), saturated(numbers.y)};
  const Shader& type = ints ? wgsl::unary_ints : gives == Gives::truth ? wgsl::unary_truth : wgsl::unary_floats;
  Kernel kernel{.shader = wgsl::unary,
                .bind = {op.read("source", self), op.write("result", out)},
                .params = params,
                .threads = params.quads,
                .slots = {{"type", type}},
                .expression = ints ? expression.on_ints : expression.on_floats};
  if (expression.functions != nullptr) kernel.slots.push_back({"functions", *expression.functions});
  return op.dispatch(kernel);
}

namespace {

Status of_numbers(Lowering& op, const Tensor& self, Out& out) { return unary(op, self, out, op.op().expression); }

/// The row's expression has one number.
Status with_number(Lowering& op, const Tensor& self, const Number& number, Out& out) {
  return unary(op, self, out, op.op().expression, Gives::numbers, {number.value});
}

Status gelu(Lowering& op, const Tensor& self, std::string_view approximate, Out& out) {
  if (approximate != "none" && approximate != "tanh") {
    return op.fail("approximate must be none or tanh, but it is {}", approximate);
  }
  return unary(op, self, out, {approximate == "none" ? "gelu(v)" : "gelu_by_tanh(v)", "", &wgsl::math});
}

Status clamp(Lowering& op, const Tensor& self, const std::optional<Number>& min, const std::optional<Number>& max,
             Out& out) {
  return unary(op, self, out,
               {"min(max(v, vec4<f32>(params.x)), vec4<f32>(params.y))",
                "min(max(v, vec4<i32>(params.i)), vec4<i32>(params.j))"},
               Gives::numbers, {min ? min->value : -HUGE_VAL, max ? max->value : HUGE_VAL});
}

Status hardtanh(Lowering& op, const Tensor& self, const Number& min, const Number& max, Out& out) {
  return clamp(op, self, min, max, out);
}

Status pow_scalar(Lowering& op, const Tensor& self, const Number& exponent, Out& out) {
  if (exponent.is_live) return op.fail("exponent must be a number that the program fixes, but it is a SymInt");
  if (!is_float(out.dtype) && (exponent.value < 0 || !exponent.is_integer)) {
    return op.fail("exponent must be a whole number of at least 0 for integers, but it is {}", exponent.value);
  }
  if (exponent.value == 0) {  // also of NaN
    TRY(op.set_shape(out, self.shape));
    if (op.is_joined()) return join(op, {&self}, out, {"vec4<f32>(1.0)"});
    return fill(op, out, {1, true, 1});
  }
  return unary(op, self, out, power_expression(exponent.value), Gives::numbers, {exponent.value});
}

Status bitwise_not(Lowering& op, const Tensor& self, Out& out) {
  return unary(op, self, out, {"", out.dtype == DType::boolean ? "1 - v" : "~v"}, Gives::bits);
}

Status truth_of(Lowering& op, const Tensor& self, Out& out) {
  return unary(op, self, out, op.op().expression, Gives::truth);
}

constexpr std::string_view kIsZero = "vec4<i32>(v == vec4<T>())";

constexpr Op kUnaryOps[] = {
    elementwise<of_numbers>("aten.abs.default", "self -> out", {"abs(v)", "abs(v)"}),
    elementwise<of_numbers>("aten.neg.default", "self -> out", {"-v", "-v"}),
    elementwise<of_numbers>("aten.round.default", "self -> out", {"round(v)", "v"}, "half to even"),
    elementwise<of_numbers>("aten.relu.default", "self -> out", {"max(v, vec4<f32>())", "max(v, vec4<i32>())"}),
    elementwise<of_numbers>("aten.relu6.default", "self -> out",
                            {"clamp(v, vec4<f32>(), vec4<f32>(6.0))", "clamp(v, vec4<i32>(), vec4<i32>(6))"}),
    elementwise<of_numbers>("aten.exp.default", "self -> out", {"exp(v)"}),
    elementwise<of_numbers>("aten.sqrt.default", "self -> out", {"sqrt(v)"}),
    elementwise<of_numbers>("aten.rsqrt.default", "self -> out", {"inverseSqrt(v)"}),
    elementwise<of_numbers>("aten.floor.default", "self -> out", {"floor(v)", "v"}),
    elementwise<of_numbers>("aten.ceil.default", "self -> out", {"ceil(v)", "v"}),
    elementwise<of_numbers>("aten.trunc.default", "self -> out", {"trunc(v)", "v"}),
    elementwise<of_numbers>("aten.square.default", "self -> out", {"v * v", "v * v"}),
    elementwise<of_numbers>("aten.reciprocal.default", "self -> out", {"1.0 / v"}),
    elementwise<of_numbers>("aten.exp2.default", "self -> out", {"exp2(v)"}),
    elementwise<of_numbers>("aten.log.default", "self -> out", {"logarithm(v)", "", &wgsl::math}),
    elementwise<of_numbers>("aten.log2.default", "self -> out", {"1.44269504 * logarithm(v)", "", &wgsl::math}),
    elementwise<of_numbers>("aten.log10.default", "self -> out", {"0.434294482 * logarithm(v)", "", &wgsl::math}),
    elementwise<of_numbers>("aten.sin.default", "self -> out", {"sine(v, 0)", "", &wgsl::math}),
    elementwise<of_numbers>("aten.cos.default", "self -> out", {"sine(v, 1)", "", &wgsl::math}),
    elementwise<of_numbers>("aten.tan.default", "self -> out", {"sine(v, 0) / sine(v, 1)", "", &wgsl::math}),
    elementwise<of_numbers>("aten.sinh.default", "self -> out", {"hyperbolic_sine(v)", "", &wgsl::math}),
    elementwise<of_numbers>("aten.cosh.default", "self -> out", {"hyperbolic_cosine(v)", "", &wgsl::math}),
    elementwise<of_numbers>("aten.erf.default", "self -> out", {"error_function(v)", "", &wgsl::math}, "within 1e-6"),
    elementwise<of_numbers>("aten.sigmoid.default", "self -> out", {"sigmoid(v)", "", &wgsl::math}),
    elementwise<of_numbers>("aten.tanh.default", "self -> out", {"hyperbolic_tangent(v)", "", &wgsl::math}),
    elementwise<of_numbers>("aten.hardsigmoid.default", "self -> out",
                            {"clamp(v + 3.0, vec4<f32>(), vec4<f32>(6.0)) / 6.0"}),
    elementwise<of_numbers>("aten.hardswish.default", "self -> out",
                            {"v * clamp(v + 3.0, vec4<f32>(), vec4<f32>(6.0)) / 6.0"}),
    elementwise<gelu>("aten.gelu.default", "self, approximate -> out", {}, "both approximations; within 1e-6"),
    elementwise<hardtanh>("aten.hardtanh.default", "self, min_val, max_val -> out"),
    elementwise<clamp>("aten.clamp.default", "self, min, max -> out", {}, "either bound may be absent"),
    elementwise<with_number>("aten.hardshrink.default", "self, lambd -> out",
                             {"select(v, vec4<f32>(), abs(v) <= vec4<f32>(params.x))"}),
    elementwise<with_number>("aten.leaky_relu.default", "self, negative_slope -> out",
                             {"select(params.x * v, v, v > vec4<f32>())"}),
    elementwise<pow_scalar>("aten.pow.Tensor_Scalar", "self, exponent -> out", {},
                            "whole exponents of negative numbers"),
    op<bitwise_not>("aten.bitwise_not.default", "self -> out"),
    elementwise<truth_of>("aten.logical_not.default", "self -> out", {kIsZero, kIsZero}),
    // By their bits: compilers may take it that there are no such numbers.
    elementwise<truth_of>("aten.isnan.default", "self -> out",
                          {"vec4<i32>((bitcast<vec4<u32>>(v) << vec4(1u)) > vec4(0xff000000u))", "vec4<i32>()"}),
    elementwise<truth_of>("aten.isinf.default", "self -> out",
                          {"vec4<i32>((bitcast<vec4<u32>>(v) << vec4(1u)) == vec4(0xff000000u))", "vec4<i32>()"}),
};

}  // namespace

const Family kUnary{"unary", kUnaryOps};

}  // namespace nibble::ops
