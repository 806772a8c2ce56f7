#include "gpu/host_convert.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

namespace nibble::gpu {
namespace {

struct Half {
  std::uint16_t bits;
};

template <class To, class From>
To convert(From value) noexcept {
  if constexpr (std::is_same_v<From, Half>) {
    return static_cast<To>(float_from_half(value.bits));
  } else if constexpr (std::is_same_v<To, Half>) {
    return Half{half_from_double(value)};
  } else {
    return static_cast<To>(value);
  }
}

/// Callers' memory need not be aligned.
template <class T>
T load(const void* from, std::size_t index) noexcept {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(from) + index * sizeof(T), sizeof(T));
  return value;
}

template <class From, class To>
void convert_all(const void* from, void* to, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    To value = convert<To>(load<From>(from, i));
    std::memcpy(static_cast<std::byte*>(to) + i * sizeof(To), &value, sizeof(To));
  }
}

/// Checks a block at a time without a branch per element, and single elements only if the block has a bad one. If `to`
/// is null, elements are only checked.
template <class From>
std::optional<BadElement> narrow(const void* from, std::int32_t* to, std::size_t count, Range range) noexcept {
  constexpr std::size_t kBlock = 1024;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(count, begin + kBlock);
    bool bad = false;
    for (std::size_t i = begin; i < end; ++i) {
      const std::int64_t value = load<From>(from, i);
      bad |= (value < range.lowest) | (value > range.highest);
      if (to != nullptr) to[i] = static_cast<std::int32_t>(value);
    }
    for (std::size_t i = begin; bad && i < end; ++i) {
      const std::int64_t value = load<From>(from, i);
      if (value < range.lowest || value > range.highest) return BadElement{.position = i, .value = value};
    }
  }
  return std::nullopt;
}

/// Calls `with` with a value of the C++ type of a float dtype.
template <class With>
void with_float(DType dtype, With&& with) noexcept {
  switch (dtype) {
    case DType::f16: return with(Half{});
    case DType::f32: return with(float{});
    case DType::f64: return with(double{});
    default: return;
  }
}

void convert_floats(DType from_dtype, const void* from, DType to_dtype, void* to, std::size_t count) noexcept {
  with_float(from_dtype, [&](auto source) {
    with_float(to_dtype, [&](auto target) { convert_all<decltype(source), decltype(target)>(from, to, count); });
  });
}

/// Anything but 0 becomes 1.
void convert_bools(const void* from, void* to, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<std::uint8_t*>(to)[i] = load<std::uint8_t>(from, i) != 0 ? 1 : 0;
  }
}

}  // namespace

std::uint16_t half_from_double(double value) noexcept {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 48 & 0x8000);
  const auto exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  std::uint64_t fraction = bits & 0xfffffffffffff;
  if (exponent == 1024) {
    // A NaN must stay a NaN, even if the top bits of its payload are zero.
    return sign | 0x7c00 | (fraction == 0 ? 0 : static_cast<std::uint16_t>(0x200 | fraction >> 42));
  }
  if (exponent > 15) return sign | 0x7c00;
  if (exponent < -25) return sign;
  // Below 2^-14, halves have no hidden bit, so the fraction keeps fewer bits.
  const bool subnormal = exponent < -14;
  const int shift = subnormal ? 42 + (-14 - exponent) : 42;
  fraction |= std::uint64_t{1} << 52;
  auto half = static_cast<std::uint32_t>(fraction >> shift);
  const std::uint64_t rest = fraction & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t middle = std::uint64_t{1} << (shift - 1);
  if (rest > middle || (rest == middle && (half & 1) != 0)) ++half;
  // The hidden bit and a carry out of the fraction add to the exponent. A carry may correctly give infinity.
  if (!subnormal) half += static_cast<std::uint32_t>(exponent + 14) << 10;
  return static_cast<std::uint16_t>(sign | half);
}

float float_from_half(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t exponent = half >> 10 & 0x1f;
  const std::uint32_t fraction = half & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

std::optional<BadElement> find_outside(DType host, const void* from, std::size_t count, Range range) noexcept {
  return host == DType::i64 ? narrow<std::int64_t>(from, nullptr, count, range)
                            : narrow<std::int32_t>(from, nullptr, count, range);
}

std::optional<BadElement> to_device(DType host, const void* from, DType device, void* to, std::size_t count,
                                    Range range) noexcept {
  if (device == DType::i32) {
    auto* out = static_cast<std::int32_t*>(to);
    return host == DType::i64 ? narrow<std::int64_t>(from, out, count, range)
                              : narrow<std::int32_t>(from, out, count, range);
  }
  if (device == DType::boolean) {
    convert_bools(from, to, count);
  } else if (device == host) {
    if (count != 0) std::memcpy(to, from, count * size_of(host));
  } else {
    convert_floats(host, from, device, to, count);
  }
  return std::nullopt;
}

void from_device(DType device, const void* from, DType host, void* to, std::size_t count) noexcept {
  if (device == DType::i32 && host == DType::i64) return convert_all<std::int32_t, std::int64_t>(from, to, count);
  if (device == DType::boolean) return convert_bools(from, to, count);
  if (device != host) return convert_floats(device, from, host, to, count);
  if (count != 0) std::memcpy(to, from, count * size_of(host));
}

}  // namespace nibble::gpu
