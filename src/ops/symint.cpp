// Integers that the host works out before a call: live sizes, elements of inputs, and arithmetic on them.
#include "ops/ops.hpp"

namespace nibble::ops {
namespace {

template <class F>
Status arithmetic(OpContext& op, F&& f) {
  TRY_BIND((a, b, out), op.args<std::int64_t, std::int64_t, SymIntOut>({"a", "b", "out"}));
  std::int64_t result = 0;
  if (f(a, b, &result)) return op.fail("the result for {} and {} does not fit 64 bits", a, b);
  op.set_int(out, result);
  return {};
}

}  // namespace

Status sym_add(OpContext& op) {
  return arithmetic(op, [](auto a, auto b, auto* r) { return __builtin_add_overflow(a, b, r); });
}

Status sym_sub(OpContext& op) {
  return arithmetic(op, [](auto a, auto b, auto* r) { return __builtin_sub_overflow(a, b, r); });
}

Status sym_mul(OpContext& op) {
  return arithmetic(op, [](auto a, auto b, auto* r) { return __builtin_mul_overflow(a, b, r); });
}

Status sym_floordiv(OpContext& op) {
  TRY_BIND((a, b, out), op.args<std::int64_t, std::int64_t, SymIntOut>({"a", "b", "out"}));
  if (b == 0) return op.fail("divides {} by zero", a);
  if (b == -1) {
    std::int64_t negated = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, a, &negated))
      return op.fail("the result for {} and {} does not fit 64 bits", a, b);
    op.set_int(out, negated);
    return {};
  }
  const std::int64_t quotient = a / b;
  op.set_int(out, a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient);
  return {};
}

Status sym_size(OpContext& op) {
  TRY_BIND((self, dim, out), op.args<Tensor, std::int64_t, SymIntOut>({"self", "dim", "out"}));
  if (self.rank() == 0) return op.fail("self is a scalar and has no dimension {}", dim);
  TRY_ASSIGN(const auto d, op.dim(dim, self.rank(), "dim"));
  op.set_int(out, self.shape[d]);
  return {};
}

Status select_as_symint(OpContext& op) {
  TRY_BIND((x, dim, index, out), op.args<Tensor, std::int64_t, std::int64_t, SymIntOut>({"x", "dim", "index", "out"}));
  if (x.dtype != DType::i32) return op.fail("x must be int32, but it is {}", x.dtype);
  TRY_ASSIGN(const auto d, op.dim(dim, x.rank(), "dim"));
  const std::int64_t size = x.rank() == 0 ? 1 : x.shape[d];
  if (index < -size || index >= size) return op.fail("index is {}, but dimension {} of x has size {}", index, d, size);
  // One element is picked: the other dimensions must have size 1, as in a position tensor.
  if (x.numel() != size) return op.fail("x must have one element per index, but its shape is {}", x.shape);
  TRY_ASSIGN(const auto element, op.host_element(x, index < 0 ? index + size : index));
  op.set_int(out, element.value_or(0));
  return {};
}

}  // namespace nibble::ops
