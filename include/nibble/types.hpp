// Types that every part of Nibble and its users share: errors as values, element types, shapes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

/// Marks what the shared library exports.
#if defined(__GNUC__)
#define NIBBLE_API __attribute__((visibility("default")))
#else
#define NIBBLE_API
#endif

namespace nibble {

/// The kind of a failure. `Error::message` has the details.
enum class ErrorCode : std::uint8_t {
  invalid_program,   ///< the file or blob is broken or inconsistent
  unsupported,       ///< the program is valid but needs something Nibble or the device lacks
  invalid_argument,  ///< the caller's input is wrong (count, dtype, rank, size, value)
  out_of_range,      ///< an index, position or number is out of its range
  out_of_memory,     ///< host or device memory
  gpu,               ///< the GPU layer reported an error
  device_lost,       ///< the device is gone; every later call on it fails the same way
  io,                ///< a file could not be read or written
  internal,          ///< a bug in Nibble
  cancelled,         ///< somebody wanted the call to stop
};

NIBBLE_API std::string_view to_string(ErrorCode code) noexcept;

/// One failure: a code for programs and one sentence for people.
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

/// Element types, with the numbers that the exporter writes.
enum class DType : std::uint8_t { boolean = 0, u8 = 1, i8 = 2, i32 = 3, f16 = 4, f32 = 5, f64 = 6, i64 = 7 };

NIBBLE_API std::string_view to_string(DType dtype) noexcept;
NIBBLE_API std::size_t size_of(DType dtype) noexcept;

/// Dimensions of a tensor, outermost first. Fixed capacity: shapes are made on every call and must not allocate.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 8;

  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<std::int64_t> dims) {
    for (auto d : dims) push_back(d);
  }

  constexpr std::size_t rank() const { return rank_; }
  constexpr std::int64_t operator[](std::size_t i) const { return dims_[i]; }
  constexpr std::int64_t& operator[](std::size_t i) { return dims_[i]; }
  constexpr const std::int64_t* begin() const { return dims_.data(); }
  constexpr const std::int64_t* end() const { return dims_.data() + rank_; }
  constexpr std::span<const std::int64_t> dims() const { return {dims_.data(), rank_}; }

  /// Appends a dimension; false when the shape is full, which overflowed() then remembers.
  constexpr bool push_back(std::int64_t d) {
    overflowed_ = rank_ == kMaxRank;
    if (!overflowed_) dims_[rank_++] = d;
    return !overflowed_;
  }
  /// Whether a dimension had no room. Such a shape equals none without.
  constexpr bool overflowed() const { return overflowed_; }

  /// Number of elements. Only for shapes whose product is known to fit 63 bits, as in every checked program.
  constexpr std::int64_t numel() const {
    std::int64_t n = 1;
    for (auto d : dims()) n *= d;
    return n;
  }

  friend constexpr bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_ || a.overflowed_ != b.overflowed_) return false;
    for (std::size_t i = 0; i < a.rank_; ++i) {
      if (a.dims_[i] != b.dims_[i]) return false;
    }
    return true;
  }

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  std::uint32_t rank_ = 0;
  bool overflowed_ = false;
};

/// `[2, 3, 4]`
NIBBLE_API std::string to_string(const Shape& shape);

}  // namespace nibble
