// Comparisons of a tensor with a number.
#include <cmath>
#include <limits>

#include "ops/elementwise/elementwise.hpp"
#include "ops/families.hpp"

namespace nibble::ops {
namespace {

/// A whole number is compared with integers as an integer, any other as float32, as torch does. What does not fit 32
/// bits lies beyond all integers.
Status compare_with(Lowering& op, const Tensor& self, const Number& other, Out& out) {
  Expression expression = op.op().expression;
  double number = other.value;
  const bool is_beyond = other.is_integer && other.integer != static_cast<std::int32_t>(other.integer);
  if (is_beyond && other.is_live) return fail_range(op, "other is {}, which does not fit 32 bits", other.integer);
  if (!is_float(self.dtype) && (is_beyond || !other.is_integer)) expression.on_ints = {};
  if (!is_float(self.dtype) && is_beyond) number = std::copysign(std::numeric_limits<double>::infinity(), number);
  return unary(op, self, out, expression, Gives::truth, {number});
}

constexpr std::string_view kWithNumber = "self, other -> out";

// NaN equals nothing. `a != b` may be compiled to a comparison that is false for NaN, so floats do without it.
constexpr Op kCompareOps[] = {
    elementwise<compare_with>("aten.eq.Scalar", kWithNumber,
                              {"vec4<i32>(v == vec4<f32>(params.x))", "vec4<i32>(v == vec4<i32>(params.i))"}),
    elementwise<compare_with>("aten.ne.Scalar", kWithNumber,
                              {"vec4<i32>(!(v == vec4<f32>(params.x)))", "vec4<i32>(v != vec4<i32>(params.i))"}),
    elementwise<compare_with>("aten.lt.Scalar", kWithNumber,
                              {"vec4<i32>(v < vec4<f32>(params.x))", "vec4<i32>(v < vec4<i32>(params.i))"}),
    elementwise<compare_with>("aten.le.Scalar", kWithNumber,
                              {"vec4<i32>(v <= vec4<f32>(params.x))", "vec4<i32>(v <= vec4<i32>(params.i))"}),
    elementwise<compare_with>("aten.gt.Scalar", kWithNumber,
                              {"vec4<i32>(v > vec4<f32>(params.x))", "vec4<i32>(v > vec4<i32>(params.i))"}),
    elementwise<compare_with>("aten.ge.Scalar", kWithNumber,
                              {"vec4<i32>(v >= vec4<f32>(params.x))", "vec4<i32>(v >= vec4<i32>(params.i))"}),
};

}  // namespace

const Family kCompare{"compare", kCompareOps};

}  // namespace nibble::ops
