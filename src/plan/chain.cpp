#include "plan/chain.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "wgsl.hpp"

namespace nibble {
namespace {

constexpr std::string_view kNames[] = {"with0", "with1", "with2", "with3", "with4", "with5"};
constexpr const Shader* kSteps[] = {&wgsl::step_of_one, &wgsl::step_of_two, &wgsl::step_of_three};

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
  const auto nth = std::to_string(n);
  const auto expression = fmt::format("{}{})", step.keeps_nan ? "tail_nan(v, " : "(", step.expression);
  const Word words[] = {{"NTH", nth}, {"SCALAR", scalar_of(out.dtype)}, {"EXPRESSION", expression}};
  write_words(steps_, kSteps[operands.size() - 1]->body, words);
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

const Shader& Chain::plain_take(bool is_one, std::uint8_t lanes) {
  return is_one ? wgsl::take_one : lanes == 4 ? wgsl::take_four : wgsl::take_element;
}

void Chain::write_take(std::string& out, std::size_t operand, const Shader& how) {
  const auto nth = std::to_string(operand);
  const Word words[] = {{"NTH", nth}};
  write_words(out, how.body, words);
}

std::string Chain::text(std::string_view takes, std::uint8_t lanes) const {
  const auto last = std::to_string(values_.size() - 1);
  const Word words[] = {{"FIRST", scalar_of(values_.front().dtype)},
                        {"SCALAR", scalar_of(values_.back().dtype)},
                        {"STEPS", lines_},
                        {"LAST", last}};
  std::string out = steps_;
  out += takes;
  write_words(out, wgsl::all_steps.body, words);
  write_words(out, (lanes == 1 ? wgsl::store_tail_1 : wgsl::store_tail_4).body, words);
  return out;
}

}  // namespace nibble
