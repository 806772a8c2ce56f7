// The type for byte and element arithmetic. An overflow makes the result invalid ("poisoned"), and everything computed
// from it. So write a whole expression plainly, and check it once at the end.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "graph/status.hpp"

namespace nibble {

class Size {
 public:
  constexpr Size() = default;
  constexpr Size(std::uint64_t value)
      : value_(value) {}  // NOLINT(google-explicit-constructor): a plain number is a Size

  static constexpr Size poisoned() {
    Size s;
    s.valid_ = false;
    return s;
  }
  static constexpr Size from_signed(std::int64_t value) {
    return value < 0 ? poisoned() : Size(static_cast<std::uint64_t>(value));
  }
  static constexpr Size of(const Shape& shape) {
    Size n = 1;
    for (auto d : shape.dims()) n = n * from_signed(d);
    return n;
  }
  static Size bytes(const Shape& shape, DType dtype) { return of(shape) * Size(size_of(dtype)); }

  constexpr bool valid() const { return valid_; }
  constexpr bool fits(std::uint64_t limit) const { return valid_ && value_ <= limit; }
  constexpr bool fits_u32() const { return fits(std::numeric_limits<std::uint32_t>::max()); }

  /// The number, or an error that says what overflowed.
  Result<std::uint64_t> get(std::string_view what) const {
    if (!valid_) return fail(ErrorCode::invalid_program, "{} does not fit 64 bits", what);
    return value_;
  }
  /// The number, if it is known to be valid.
  constexpr std::uint64_t unchecked() const { return value_; }

  constexpr Size align_up(std::uint64_t to) const { return (*this + (to - 1)).floor_to(to); }
  constexpr Size div_up(std::uint64_t by) const {
    Size s = *this + (by - 1);
    s.value_ /= by;
    return s;
  }

  friend constexpr Size operator+(Size a, Size b) {
    Size r;
    r.valid_ = a.valid_ && b.valid_ && !__builtin_add_overflow(a.value_, b.value_, &r.value_);
    return r;
  }
  friend constexpr Size operator*(Size a, Size b) {
    Size r;
    // Zero times any valid size is zero, but an invalid factor makes the product invalid.
    r.valid_ = a.valid_ && b.valid_ && !__builtin_mul_overflow(a.value_, b.value_, &r.value_);
    return r;
  }
  friend constexpr Size operator-(Size a, Size b) {
    Size r;
    r.valid_ = a.valid_ && b.valid_ && !__builtin_sub_overflow(a.value_, b.value_, &r.value_);
    return r;
  }

 private:
  constexpr Size floor_to(std::uint64_t to) const {
    Size s = *this;
    s.value_ -= s.value_ % to;
    return s;
  }

  std::uint64_t value_ = 0;
  bool valid_ = true;
};

/// A product that wraps instead of overflowing: sizes beside a dimension of zero may be absurd.
constexpr std::int64_t wrapping_product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
constexpr std::int64_t wrapping_product(std::span<const std::int64_t> sizes) {
  std::int64_t product = 1;
  for (const auto size : sizes) product = wrapping_product(product, size);
  return product;
}

}  // namespace nibble
