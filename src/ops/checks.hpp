// What ops check of their arguments and count of their shapes, beyond what Lowering does.
#pragma once

#include "plan/lowering.hpp"

namespace nibble::ops {

/// As op.fail(), for a position that the caller gave.
template <class... Args>
[[nodiscard]] std::unexpected<Error> fail_range(const Lowering& op, fmt::format_string<Args...> text, Args&&... args) {
  auto error = op.vfail(text, fmt::make_format_args(args...));
  error.error().code = ErrorCode::out_of_range;
  return error;
}

/// The zero point of bytes that come in.
inline Status check_zero(const Lowering& op, const Number& zero) {
  if (zero.is_integer && zero.integer >= -128 && zero.integer <= 127) return {};
  return op.fail("input_zero_point is {}, but it must be from -128 to 127", zero.value);
}

inline Status check_activation(const Lowering& op, std::string_view activation) {
  if (activation == "none" || activation == "relu") return {};
  return op.fail("activation must be none or relu, but it is {}", activation);
}

/// The loops of a thread that goes over a whole filter.
inline Status check_rounds(const Lowering& op, std::int64_t rounds) {
  const auto most = op.profile().max_rounds();
  if (std::cmp_less_equal(rounds, most)) return {};
  return op.fail("a filter takes {} steps, but on this device it may take {} at most", rounds, most);
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
