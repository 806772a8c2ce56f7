// What ops check of their arguments, beyond what OpContext does.
#pragma once

#include "plan/op_context.hpp"

namespace nibble::ops {

inline bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f16; }

inline Status check_float(const OpContext& op, const Tensor& tensor) {
  if (is_float(tensor.dtype)) return {};
  return op.fail("{} must be float32 or float16, but it is {}", tensor.arg, tensor.dtype);
}

/// As op.fail(), for a position that the caller gave.
template <class... Args>
[[nodiscard]] std::unexpected<Error> fail_range(const OpContext& op, fmt::format_string<Args...> text, Args&&... args) {
  auto error = op.fail(text, std::forward<Args>(args)...);
  error.error().code = ErrorCode::out_of_range;
  return error;
}

}  // namespace nibble::ops
