#include "nibble/types.hpp"

#include <cmath>

#include "graph/graph.hpp"

namespace nibble {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_program: return "invalid program";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::invalid_argument: return "invalid argument";
    case ErrorCode::out_of_range: return "out of range";
    case ErrorCode::out_of_memory: return "out of memory";
    case ErrorCode::gpu: return "GPU error";
    case ErrorCode::device_lost: return "device lost";
    case ErrorCode::cancelled: return "cancelled";
    case ErrorCode::io: return "I/O error";
    case ErrorCode::internal: return "internal error";
  }
  return "unknown error";
}

std::string_view to_string(DType dtype) noexcept {
  switch (dtype) {
    case DType::boolean: return "bool";
    case DType::u8: return "uint8";
    case DType::i8: return "int8";
    case DType::i32: return "int32";
    case DType::f16: return "float16";
    case DType::f32: return "float32";
    case DType::f64: return "float64";
    case DType::i64: return "int64";
  }
  return "unknown";
}

std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::boolean:
    case DType::u8:
    case DType::i8: return 1;
    case DType::f16: return 2;
    case DType::i32:
    case DType::f32: return 4;
    case DType::f64:
    case DType::i64: return 8;
  }
  return 0;
}

std::string to_string(const Shape& shape) { return "[" + joined(shape) + "]"; }

std::string_view kind_name(const Value& value) {
  static constexpr std::string_view kNames[] = {"Null",       "Int",      "Double",    "Bool",   "Tensor", "IntList",
                                                "DoubleList", "BoolList", "ValueList", "String", "SymInt"};
  return kNames[value.index()];
}

std::optional<std::int64_t> whole_number(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  const auto* number = std::get_if<double>(&value);
  if (number == nullptr || !(std::abs(*number) <= 9007199254740992.0) || std::trunc(*number) != *number) return {};
  return static_cast<std::int64_t>(*number);
}

}  // namespace nibble
