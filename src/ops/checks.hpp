// What ops check of their arguments and count of their shapes, beyond what Lowering does.
#pragma once

#include "plan/lowering.hpp"

namespace nibble::ops {

inline bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f16; }

inline Status check_float(const Lowering& op, const Tensor& tensor) {
  if (is_float(tensor.dtype)) return {};
  return op.fail("{} must be float32 or float16, but it is {}", tensor.arg, tensor.dtype);
}

inline Status check_floats(const Lowering& op, std::initializer_list<const Tensor*> tensors) {
  for (const auto* t : tensors) TRY(check_float(op, *t));
  return {};
}

/// As op.fail(), for a position that the caller gave.
template <class... Args>
[[nodiscard]] std::unexpected<Error> fail_range(const Lowering& op, fmt::format_string<Args...> text, Args&&... args) {
  auto error = op.fail(text, std::forward<Args>(args)...);
  error.error().code = ErrorCode::out_of_range;
  return error;
}

/// A number that is known to fit.
inline std::uint32_t narrow(std::int64_t value) { return static_cast<std::uint32_t>(value); }

/// Four elements are a quad, and a thread's work in most kernels.
inline std::uint32_t quads_of(const Shape& shape) {
  return static_cast<std::uint32_t>(Size::of(shape).div_up(4).unchecked());
}

}  // namespace nibble::ops
