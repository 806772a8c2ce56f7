// What ops check of their arguments and count of their shapes, beyond what Lowering does.
#pragma once

#include "plan/lowering.hpp"

namespace nibble::ops {

/// As op.fail(), for a position that the caller gave.
template <class... Args>
[[nodiscard]] std::unexpected<Error> fail_range(const Lowering& op, fmt::format_string<Args...> text, Args&&... args) {
  auto error = op.fail(text, std::forward<Args>(args)...);
  error.error().code = ErrorCode::out_of_range;
  return error;
}

/// A number that is known to fit.
template <class T>
constexpr std::uint32_t narrow(T value) {
  return static_cast<std::uint32_t>(value);
}

/// Four elements are a quad, and a thread's work in most kernels.
inline std::uint32_t quads_of(const Shape& shape) { return narrow(Size::of(shape).div_up(4).unchecked()); }

/// An override that is one or the other.
constexpr double flag(bool is_so) { return is_so ? 1 : 0; }

}  // namespace nibble::ops
