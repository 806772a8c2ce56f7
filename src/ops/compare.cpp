// Truth values: comparisons of a tensor with a tensor or a number, and logic on them.
#include <cmath>
#include <limits>

#include "ops/elementwise.hpp"
#include "ops/ops.hpp"

namespace nibble::ops {
namespace {

Status with_tensor(OpContext& op, std::string_view expression) {
  TRY_BIND((a, b, out), op.args<Tensor, Tensor, Out>({"self", "other", "out"}));
  return binary(op, a, b, out, {expression, expression}, Gives::truth);
}

/// A whole number is compared with integers as an integer, any other as float32, as torch does. What does not fit 32
/// bits lies beyond all integers.
Status with_number(OpContext& op, Expression expression) {
  TRY_BIND((self, other, out), op.args<Tensor, Number, Out>({"self", "other", "out"}));
  double number = other.value;
  const bool is_beyond = other.is_integer && other.integer != static_cast<std::int32_t>(other.integer);
  if (!is_float(self.dtype) && (is_beyond || !other.is_integer)) expression.on_ints = {};
  if (!is_float(self.dtype) && is_beyond) number = std::copysign(std::numeric_limits<double>::infinity(), number);
  return unary(op, self, out, expression, Gives::truth, {number});
}

}  // namespace

// NaN equals nothing. `a != b` may be compiled to a comparison that is false for NaN, so it is not used.
Status eq(OpContext& op) { return with_tensor(op, "vec4<i32>(a == b)"); }
Status ne(OpContext& op) { return with_tensor(op, "vec4<i32>(!(a == b))"); }
Status lt(OpContext& op) { return with_tensor(op, "vec4<i32>(a < b)"); }
Status le(OpContext& op) { return with_tensor(op, "vec4<i32>(a <= b)"); }
Status gt(OpContext& op) { return with_tensor(op, "vec4<i32>(a > b)"); }
Status ge(OpContext& op) { return with_tensor(op, "vec4<i32>(a >= b)"); }

Status eq_scalar(OpContext& op) {
  return with_number(op, {"vec4<i32>(v == vec4<f32>(params.x))", "vec4<i32>(v == vec4<i32>(params.i))"});
}
Status ne_scalar(OpContext& op) {
  return with_number(op, {"vec4<i32>(!(v == vec4<f32>(params.x)))", "vec4<i32>(v != vec4<i32>(params.i))"});
}
Status lt_scalar(OpContext& op) {
  return with_number(op, {"vec4<i32>(v < vec4<f32>(params.x))", "vec4<i32>(v < vec4<i32>(params.i))"});
}
Status le_scalar(OpContext& op) {
  return with_number(op, {"vec4<i32>(v <= vec4<f32>(params.x))", "vec4<i32>(v <= vec4<i32>(params.i))"});
}
Status gt_scalar(OpContext& op) {
  return with_number(op, {"vec4<i32>(v > vec4<f32>(params.x))", "vec4<i32>(v > vec4<i32>(params.i))"});
}
Status ge_scalar(OpContext& op) {
  return with_number(op, {"vec4<i32>(v >= vec4<f32>(params.x))", "vec4<i32>(v >= vec4<i32>(params.i))"});
}

// Anything but zero is true, NaN too.
Status logical_and(OpContext& op) { return with_tensor(op, "vec4<i32>(!(a == vec4<T>()) & !(b == vec4<T>()))"); }
Status logical_or(OpContext& op) { return with_tensor(op, "vec4<i32>(!(a == vec4<T>()) | !(b == vec4<T>()))"); }
Status logical_xor(OpContext& op) { return with_tensor(op, "vec4<i32>((a == vec4<T>()) != (b == vec4<T>()))"); }

}  // namespace nibble::ops
