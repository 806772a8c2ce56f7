#include "plan/chain.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace nibble {
namespace {

constexpr std::string_view kNames[] = {"with0", "with1", "with2", "with3", "with4", "with5"};
constexpr std::string_view kParameters[] = {"v: vec4<f32>, ", "a: vec4<f32>, b: vec4<f32>, ",
                                            "a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, "};

std::string_view scalar_of(DType dtype) { return is_float(dtype) ? "f32" : "i32"; }

}  // namespace

std::string_view Chain::name_of(std::size_t operand) { return kNames[std::min(operand, std::size(kNames) - 1)]; }

std::string Chain::operand(const Tensor& tensor) {
  const auto local = std::ranges::find(values_, tensor.id, &Local::id);
  if (local != values_.end()) {
    // float16 is rounded as if it had been stored.
    return fmt::format("{}(x{})", local->dtype == DType::f16 ? "tail_half" : "vec4<f32>", local - values_.begin());
  }
  const auto* found = std::ranges::find(operands_, tensor.id, &Tensor::id);
  const auto index = found - operands_.begin();
  if (found == operands_.end()) operands_.push_back(tensor);
  return fmt::format("take{}(i)", index);
}

void Chain::add(std::span<const Tensor* const> operands, const Tensor& out, const Step& step) {
  const auto n = values_.size();
  const bool has_numbers = step.expression.find("params.") != std::string_view::npos;
  fmt::format_to(std::back_inserter(steps_), "fn tail{}({}params: vec4<f32>) -> vec4<{}> {{ return {}{}); }}\n", n,
                 kParameters[operands.size() - 1], scalar_of(out.dtype), step.keeps_nan ? "tail_nan(v, " : "(",
                 step.expression);
  fmt::format_to(std::back_inserter(lines_), "let x{} = tail{}(", n, n);
  for (const Tensor* t : operands) fmt::format_to(std::back_inserter(lines_), "{}, ", operand(*t));
  if (has_numbers) {
    fmt::format_to(std::back_inserter(lines_), "params.tail[{}]);\n", numbers_.size());
    numbers_.push_back(step.numbers);
  } else {
    lines_ += "vec4<f32>());\n";
  }
  if (step.functions != nullptr && std::ranges::find(functions_, step.functions) == functions_.end()) {
    functions_.push_back(step.functions);
  }
  values_.push_back({out.id, out.dtype});
}

std::string Chain::text(std::string_view takes, std::uint8_t lanes) const {
  const auto from = scalar_of(values_.front().dtype);
  const auto to = scalar_of(values_.back().dtype);
  return fmt::format(
      "{}{}fn tail(i: u32, x0: vec4<{}>) -> vec4<{}> {{\n{}return x{};\n}}\n{}", steps_, takes, from, to, lines_,
      values_.size() - 1,
      lanes == 1 ? fmt::format("fn store_result(i: u32, v: {0}) {{ put_result(i, tail(i, vec4<{0}>(v)).x); }}\n", from)
                 : fmt::format("fn store4_result(i: u32, v: vec4<{}>) {{ put4_result(i, tail(i, v)); }}\n", from));
}

}  // namespace nibble
