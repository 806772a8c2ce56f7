#include "ops/elementwise/elementwise.hpp"

#include <algorithm>

namespace nibble::ops {

Result<bool> on_ints(const Lowering& op, std::initializer_list<const Tensor*> operands, const Out& out,
                     const Expression& expression, Gives gives) {
  bool any_float = false;
  bool all_bool = true;
  // Bytes are computed with as int32, and what is stored wraps round: no wider integers may be among them.
  bool fits = out.dtype == DType::i32 || out.dtype == DType::i8 || out.dtype == DType::u8;
  for (const Tensor* t : operands) {
    if (size_of(t->dtype) > 4) return op.fail("{} is {}, which is not computed with", t->arg, t->dtype);
    any_float |= is_float(t->dtype);
    all_bool &= t->dtype == DType::boolean;
    fits &= out.dtype == DType::i32 || t->dtype == out.dtype || t->dtype == DType::boolean;
  }
  const auto refuse = [&] {
    const Tensor& first = **operands.begin();
    const auto* other = std::ranges::find_if(operands, [&](const Tensor* t) { return t->dtype != first.dtype; });
    const bool differ = other != operands.end();
    return op.fail("{} is {}{}{}, but the output is {}", first.arg, first.dtype, differ ? " and another is " : "",
                   differ ? to_string((*other)->dtype) : "", out.dtype);
  };
  switch (gives) {
    case Gives::numbers:
      if (is_float(out.dtype)) return false;
      if (!fits || any_float || expression.on_ints.empty()) return refuse();
      return true;
    case Gives::truth:
      if (out.dtype != DType::boolean) return op.fail("the output must be bool, but it is {}", out.dtype);
      return !any_float && !expression.on_ints.empty();
    case Gives::bits:
      if (any_float || (!fits && (out.dtype != DType::boolean || !all_bool))) return refuse();
      return true;
  }
  return true;
}

}  // namespace nibble::ops
