#include "plan/kernel.hpp"

#include <iterator>

#include <fmt/format.h>

namespace nibble {

Elem elem_of(DType dtype) {
  switch (dtype) {
    case DType::boolean: return Elem::boolean;
    case DType::u8: return Elem::u8;
    case DType::i8: return Elem::i8;
    case DType::i32: return Elem::i32;
    case DType::f16: return Elem::f16;
    case DType::f32:
    case DType::f64:
    case DType::i64: return Elem::f32;
  }
  return Elem::f32;
}

std::string to_string(const Kernel& kernel) {
  std::string text =
      fmt::format("{} ({} threads in groups of {})", kernel.shader.get().name, kernel.threads, kernel.workgroup);
  for (const auto& b : kernel.bind) {
    fmt::format_to(std::back_inserter(text), " {}{}", b.format.name, b.format.access == Access::read ? "" : "*");
  }
  for (const auto& one : kernel.overrides) fmt::format_to(std::back_inserter(text), " {}={}", one.name, one.value);
  for (const auto& one : kernel.slots) fmt::format_to(std::back_inserter(text), " {}:{}", one.name, one.module->name);
  if (!kernel.expression.empty()) fmt::format_to(std::back_inserter(text), " `{}`", kernel.expression);
  if (!kernel.tail.text.empty()) fmt::format_to(std::back_inserter(text), " and\n{}", kernel.tail.text);
  return text;
}

}  // namespace nibble
