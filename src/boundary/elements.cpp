#include "boundary/elements.hpp"

namespace nibble {
namespace {

bool is_floating(DType dtype) { return dtype == DType::f16 || dtype == DType::f32 || dtype == DType::f64; }

}  // namespace

bool converts(DType device, DType host) noexcept {
  if (is_floating(device)) return is_floating(host);
  if (device == DType::i32) return host == DType::i32 || host == DType::i64;
  if (device == DType::boolean) return host == DType::boolean || host == DType::u8;
  return device == host;
}

std::string_view wanted_dtypes(DType device) noexcept {
  if (is_floating(device)) return "float32, float64 or float16";
  if (device == DType::i32) return "int32 or int64";
  if (device == DType::boolean) return "bool or uint8";
  return to_string(device);
}

}  // namespace nibble
