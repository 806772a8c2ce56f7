#include "plan/tuning_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace nibble {
namespace {

/// Numbers that look like noise; the same every time.
class Noise {
 public:
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>(state_ >> 33U);  // 31 bits
  }
  float real() { return static_cast<float>(next()) / static_cast<float>(1U << 30U) - 1; }

 private:
  std::uint64_t state_ = 1;
};

template <class T>
void fill_with(std::span<std::byte> bytes, const auto& make) {
  for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    const T value = make();
    std::memcpy(bytes.data() + i, &value, sizeof(T));
  }
}

/// Bytes that need not be aligned.
template <class T>
T element(std::span<const std::byte> bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

float usual_size(std::span<const std::byte> floats) {
  double squares = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < floats.size() / sizeof(float); ++i) {
    const auto x = element<float>(floats, i);
    if (!std::isfinite(x)) continue;
    squares += static_cast<double>(x) * x;
    ++count;
  }
  return count == 0 ? 0.0F : static_cast<float>(std::sqrt(squares / static_cast<double>(count)));
}

bool are_near(std::span<const std::byte> a, std::span<const std::byte> b, float tolerance) {
  const float usual = usual_size(a);
  for (std::size_t i = 0; i < a.size() / sizeof(float); ++i) {
    const auto x = element<float>(a, i);
    const auto y = element<float>(b, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    // Infinity is within a part of infinity, too.
    if (!std::isfinite(x) || !(std::abs(x - y) <= tolerance * std::max(std::abs(x), usual))) return false;
  }
  return true;
}

template <class T>
bool are_within(std::int64_t most, std::span<const std::byte> a, std::span<const std::byte> b) {
  for (std::size_t i = 0; i < a.size() / sizeof(T); ++i) {
    if (std::abs(std::int64_t{element<T>(a, i)} - element<T>(b, i)) > most) return false;
  }
  return true;
}

}  // namespace

void fill_input(const InputDesc& input, std::uint64_t rows, std::int32_t integer, std::span<std::byte> bytes) {
  Noise noise;
  switch (input.staging) {
    case DType::f32: fill_with<float>(bytes, [&] { return noise.real(); }); break;
    case DType::boolean: fill_with<std::uint8_t>(bytes, [&] { return noise.next() % 2; }); break;
    case DType::i32:
      // Of integers that are no indices only zero is surely an index of something.
      fill_with<std::int32_t>(bytes, [&] {
        if (input.host_read) return integer;
        return input.checks.empty() ? 0 : static_cast<std::int32_t>(noise.next() % std::max<std::uint64_t>(1, rows));
      });
      break;
    default: fill_with<std::uint8_t>(bytes, [&] { return noise.next(); }); break;
  }
}

float tolerance_of(const Choice& choice, DType stored, const DeviceProfile& profile) {
  constexpr float kStored = 0x1p-9F;
  // Each sum of four is rounded; the largest differences that were seen are a quarter of this.
  constexpr float kProducts = 0x1p-7F;
  if (choice.tolerance == 0) return 0;
  float tolerance = choice.tolerance;
  if (stored == DType::f16) tolerance = std::max(tolerance, kStored);
  if (choice.in_halves && profile.f16_products) tolerance = std::max(tolerance, kProducts);
  return tolerance;
}

bool agree(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b, float tolerance) {
  if (a.size() != b.size()) return false;
  const auto most = tolerance > 0 ? 1 : 0;
  switch (dtype) {
    case DType::f32: return are_near(a, b, tolerance);
    case DType::u8: return are_within<std::uint8_t>(most, a, b);
    case DType::i8: return are_within<std::int8_t>(most, a, b);
    default: return std::ranges::equal(a, b);
  }
}

}  // namespace nibble
