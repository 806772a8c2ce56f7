// Elementwise ops are expressions: WGSL on four elements at a time, put into a kernel that loads and stores. The
// compute type T is f32 or i32; operands of another type are converted as they are loaded. An expression is of `v`
// (unary) or of `a` and `b` (binary), which are vec4<T>, and of the kernel's parameters.
#pragma once

#include "ops/checks.hpp"

namespace nibble::ops {

/// What kind of element an op makes, and so which operands it takes.
enum class Gives : std::uint8_t {
  numbers,  ///< float32, float16 or int32, computed in the output's type
  truth,    ///< bool, computed in the operands' common type
  bits,     ///< int32 or bool, from the same
};

/// Whether the op computes on integers; an error where the types do not go together.
Result<bool> on_ints(const Lowering& op, std::initializer_list<const Tensor*> operands, const Out& out,
                     const Expression& expression, Gives gives);

/// Two numbers that a unary expression may use: params.x and params.y, or params.i and params.j on integers.
struct UnaryNumbers {
  double x = 0;
  double y = 0;
};

/// For an op whose node has a tail, or is in one: computes them in one kernel. The shape of `out` is set, and it is of
/// floats, but for a last step's.
Status join(Lowering& op, std::initializer_list<const Tensor*> operands, const Out& out, const Step& step);

Status unary(Lowering& op, const Tensor& self, Out& out, const Expression& expression, Gives gives = Gives::numbers,
             const UnaryNumbers& numbers = {});

/// `alpha` is params.alpha, or params.alpha_int on integers.
Status binary(Lowering& op, const Tensor& a, const Tensor& b, Out& out, const Expression& expression,
              Gives gives = Gives::numbers, const Number& alpha = {1, true, 1});

}  // namespace nibble::ops
