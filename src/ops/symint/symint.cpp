// Integers that the host works out before a call: live sizes, elements of inputs, and arithmetic on them.
#include <functional>

#include "ops/families.hpp"
#include "plan/lowering.hpp"

namespace nibble::ops {
namespace {

/// `f` gives true where the result does not fit.
template <bool (*f)(std::int64_t, std::int64_t, std::int64_t*)>
Status arithmetic(Lowering& op, LiveInt a, LiveInt b, SymIntOut out) {
  std::int64_t result = 0;
  if (f(a, b, &result)) return op.fail("the result for {} and {} does not fit 64 bits", a, b);
  op.set_int(out, result);
  return {};
}

bool add(std::int64_t a, std::int64_t b, std::int64_t* result) { return __builtin_add_overflow(a, b, result); }
bool sub(std::int64_t a, std::int64_t b, std::int64_t* result) { return __builtin_sub_overflow(a, b, result); }
bool mul(std::int64_t a, std::int64_t b, std::int64_t* result) { return __builtin_mul_overflow(a, b, result); }

bool quotient(std::int64_t a, std::int64_t b, std::int64_t* result) {
  if (b == -1) return __builtin_sub_overflow(std::int64_t{0}, a, result);
  *result = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  return false;
}

Status floordiv(Lowering& op, LiveInt a, LiveInt b, SymIntOut out) {
  if (b == 0) return op.fail("divides {} by zero", a);
  return arithmetic<quotient>(op, a, b, out);
}

/// Truth is the integer 1.
template <template <class> class Compare>
Status compare(Lowering& op, LiveInt a, LiveInt b, SymIntOut out) {
  op.set_int(out, Compare<std::int64_t>{}(a, b) ? 1 : 0);
  return {};
}

Status sym_size(Lowering& op, const Tensor& self, LiveInt dim, SymIntOut out) {
  if (self.rank() == 0) return op.fail("self is a scalar and has no dimension {}", dim);
  TRY_ASSIGN(const auto d, op.dim(dim, self.rank(), "dim"));
  op.set_int(out, self.shape[d]);
  return {};
}

Status select_as_symint(Lowering& op, const HostInts& x, std::int64_t dim, LiveInt index, SymIntOut out) {
  if (x.dtype != DType::i32) return op.fail("x must be int32, but it is {}", x.dtype);
  TRY_ASSIGN(const auto d, op.dim(dim, x.rank(), "dim"));
  const std::int64_t size = x.rank() == 0 ? 1 : x.shape[d];
  if (index < -size || index >= size) return op.fail("index is {}, but dimension {} of x has size {}", index, d, size);
  // One element is picked: the other dimensions must have size 1, as in a position tensor.
  if (x.numel() != size) return op.fail("x must have one element per index, but its shape is {}", x.shape);
  TRY_ASSIGN(const auto element, op.host_element(x, index < 0 ? index + size : std::int64_t{index}));
  op.set_int(out, element.value_or(0));
  return {};
}

constexpr Op kSymIntOps[] = {
    op<select_as_symint>("et_vk.select_as_symint.default", "x, dim, index -> out", "x must be a program input"),
    op<sym_size>("sym_size.int", "self, dim -> out"),
    op<arithmetic<add>>("add", "a, b -> out"),
    op<arithmetic<sub>>("sub", "a, b -> out"),
    op<arithmetic<mul>>("mul", "a, b -> out"),
    op<floordiv>("floordiv", "a, b -> out", "rounds down; a zero divisor is an error"),
    op<compare<std::equal_to>>("eq", "a, b -> out"),
    op<compare<std::less>>("lt", "a, b -> out"),
    op<compare<std::less_equal>>("le", "a, b -> out"),
    op<compare<std::greater>>("gt", "a, b -> out"),
    op<compare<std::greater_equal>>("ge", "a, b -> out"),
};

}  // namespace

const Family kSymInt{"symint", kSymIntOps};

}  // namespace nibble::ops
