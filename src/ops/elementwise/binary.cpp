// Elementwise arithmetic on two tensors, with broadcasting.
#include "ops/elementwise/broadcast.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "ops/families.hpp"
#include "wgsl.hpp"

namespace nibble::ops {

Status binary(Lowering& op, const Tensor& a, const Tensor& b, Out& out, const Expression& expression, Gives gives,
              const Number& alpha) {
  TRY_ASSIGN(const bool ints, on_ints(op, {&a, &b}, out, expression, gives));
  if (ints && (!alpha.is_integer || alpha.integer != static_cast<std::int32_t>(alpha.integer))) {
    return op.fail("alpha must be a 32-bit integer for integer operands, but it is {}", alpha.value);
  }
  Shape shape;
  if (!broadcast(a.shape, b.shape, shape)) return op.fail("shapes {} and {} do not broadcast", a.shape, b.shape);
  TRY(op.set_shape(out, shape));
  if (op.is_joined()) {
    return join(op, {&a, &b}, out,
                {.expression = expression.on_floats,
                 .functions = expression.functions,
                 .numbers = {static_cast<float>(alpha.value)}});
  }

  Kernel kernel =
      broadcast_kernel(op, wgsl::binary, {&a, &b}, out,
                       {.x = static_cast<float>(alpha.value), .i = static_cast<std::int32_t>(alpha.integer)});
  kernel.expression = ints ? expression.on_ints : expression.on_floats;
  kernel.slots.push_back({"type", ints ? wgsl::ints : gives == Gives::truth ? wgsl::truth : wgsl::floats});
  if (expression.functions != nullptr) kernel.slots.push_back({"functions", *expression.functions});
  return op.dispatch(kernel);
}

namespace {

template <Gives gives>
Status of_two(Lowering& op, const Tensor& self, const Tensor& other, Out& out) {
  return binary(op, self, other, out, op.op().expression, gives);
}

Status with_alpha(Lowering& op, const Tensor& self, const Tensor& other, const Number& alpha, Out& out) {
  return binary(op, self, other, out, op.op().expression, Gives::numbers, alpha);
}

Status div_mode(Lowering& op, const Tensor& self, const Tensor& other, std::optional<std::string_view> mode, Out& out) {
  if (!mode) return binary(op, self, other, out, {"a / b"});
  if (*mode == "floor") {
    return binary(op, self, other, out, {"floor_quotient(a, b)", "floor_quotient_of_ints(a, b)", &wgsl::math});
  }
  if (*mode == "trunc") return binary(op, self, other, out, {"trunc(quotient(a, b))", "a / b", &wgsl::math});
  return op.fail("rounding_mode must be floor or trunc, but it is {}", *mode);
}

Status where(Lowering& op, const Tensor& condition, const Tensor& self, const Tensor& other, Out& out) {
  if (condition.dtype != DType::boolean) return op.fail("condition must be bool, but it is {}", condition.dtype);
  // Branches are numbers in the output's type, or bools.
  const auto gives = out.dtype == DType::boolean ? Gives::bits : Gives::numbers;
  TRY_ASSIGN(const bool ints, on_ints(op, {&self, &other}, out, {"a", "a"}, gives));
  Shape branches;
  Shape shape;
  if (!broadcast(self.shape, other.shape, branches) || !broadcast(condition.shape, branches, shape)) {
    return op.fail("shapes {}, {} and {} do not broadcast", condition.shape, self.shape, other.shape);
  }
  TRY(op.set_shape(out, shape));
  if (op.is_joined()) return join(op, {&self, &other, &condition}, out, {"select(b, a, c != vec4<f32>())"});
  Kernel kernel = broadcast_kernel(op, wgsl::where, {&self, &other, &condition}, out, {});
  kernel.slots.push_back({"type", ints ? wgsl::ints : wgsl::floats});
  return op.dispatch(kernel);
}

constexpr std::string_view kAlphaArgs = "self, other, alpha -> out";

template <Gives gives>
consteval Op two(std::string_view name, Expression expression, Note notes = {}) {
  return elementwise<of_two<gives>>(name, "self, other -> out", expression, notes);
}

consteval Op truth(std::string_view name, std::string_view expression) {
  return two<Gives::truth>(name, {expression, expression});
}

// NaN equals nothing. `a != b` may be compiled to a comparison that is false for NaN, so it is not used. Anything but
// zero is true, NaN too.
constexpr Op kBinaryOps[] = {
    elementwise<with_alpha>("aten.add.Tensor", kAlphaArgs, {"a + params.x * b", "a + params.i * b"}, "mixed types"),
    elementwise<with_alpha>("aten.sub.Tensor", kAlphaArgs, {"a - params.x * b", "a - params.i * b"}, "mixed types"),
    two<Gives::numbers>("aten.mul.Tensor", {"a * b", "a * b"}, "mixed types"),
    two<Gives::numbers>("aten.div.Tensor", {"a / b"}, "integers divide to float32"),
    elementwise<div_mode>("aten.div.Tensor_mode", "self, other, rounding_mode -> out", {}, "floor, trunc or none"),
    two<Gives::numbers>("aten.minimum.default", {"minimum(a, b)", "min(a, b)", &wgsl::math}),
    two<Gives::numbers>("aten.maximum.default", {"maximum(a, b)", "max(a, b)", &wgsl::math}),
    two<Gives::numbers>("aten.pow.Tensor_Tensor", {"power(a, b)", "power_of_ints(a, b)", &wgsl::math},
                        "whole exponents of negative numbers"),
    two<Gives::numbers>("aten.fmod.Tensor", {"rest_of(a, b)", "a - a / b * b", &wgsl::remainder}, "exact"),
    two<Gives::numbers>("aten.remainder.Tensor",
                        {"modulo(a, b)", "a - floor_quotient_of_ints(a, b) * b", &wgsl::remainder}, "exact"),
    two<Gives::bits>("aten.bitwise_and.Tensor", {"", "a & b"}),
    two<Gives::bits>("aten.bitwise_or.Tensor", {"", "a | b"}),
    two<Gives::bits>("aten.bitwise_xor.Tensor", {"", "a ^ b"}),
    truth("aten.eq.Tensor", "vec4<i32>(a == b)"),
    truth("aten.ne.Tensor", "vec4<i32>(!(a == b))"),
    truth("aten.lt.Tensor", "vec4<i32>(a < b)"),
    truth("aten.le.Tensor", "vec4<i32>(a <= b)"),
    truth("aten.gt.Tensor", "vec4<i32>(a > b)"),
    truth("aten.ge.Tensor", "vec4<i32>(a >= b)"),
    truth("aten.logical_and.default", "vec4<i32>(!(a == vec4<T>()) & !(b == vec4<T>()))"),
    truth("aten.logical_or.default", "vec4<i32>(!(a == vec4<T>()) | !(b == vec4<T>()))"),
    truth("aten.logical_xor.default", "vec4<i32>((a == vec4<T>()) != (b == vec4<T>()))"),
    elementwise<where>("aten.where.self", "condition, self, other -> out", {}, "all three operands broadcast"),
};

}  // namespace

const Family kBinary{"binary", kBinaryOps, {&kBroadcast}};

}  // namespace nibble::ops
