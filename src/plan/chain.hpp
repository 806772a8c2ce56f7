// Elementwise ops that one kernel computes. They take their operands from registers, or from memory where these are
// operands of none of them: a chain is the kernel's text for it.
#pragma once

#include <string>

#include "plan/arguments.hpp"
#include "plan/kernel.hpp"

namespace nibble {

/// WGSL of one op: of `v`, or of `a` and `b`, or of `a`, `b` and `c`, and of the numbers params.x to params.w.
struct Step {
  std::string_view expression;
  const Shader* functions = nullptr;  ///< what it calls
  std::array<float, 4> numbers{};
  bool keeps_nan = false;  ///< of NaN comes NaN, whatever the expression says
};

class Chain {
 public:
  /// The most that chains may have. Passes see to it, and to fewer in those that follow another op's kernel.
  static constexpr std::size_t kMostOperands = 6;
  static constexpr std::size_t kMostNumbers = 8;

  /// `first` is what a kernel hands over, if it does more than read the chain's operands.
  explicit Chain(const Tensor& first) { values_.push_back({first.id, first.dtype}); }

  void add(std::span<const Tensor* const> operands, const Tensor& out, const Step& step);

  /// What is read from memory: bound by these names, and taken by functions take0(quad) and so on.
  std::span<const Tensor> operands() const { return operands_.all(); }
  static std::string_view name_of(std::size_t operand);
  /// Of each step that has some; a kernel has them as params.tail.
  std::span<const std::array<float, 4>> numbers() const { return numbers_.all(); }
  bool overflowed() const { return operands_.overflowed() || numbers_.overflowed(); }
  /// What its steps call.
  std::span<const Shader* const> functions() const { return functions_; }
  /// How an operand is read that has one element, or else the result's shape.
  static const Shader& plain_take(bool is_one, std::uint8_t lanes);
  /// Appends the function that reads an operand.
  static void write_take(std::string& out, std::size_t operand, const Shader& how);
  /// The WGSL: `takes` has the functions that read operands, `lanes` is how many elements the kernel stores at a time.
  std::string text(std::string_view takes, std::uint8_t lanes) const;

 private:
  struct Local {
    ValueId id = 0;
    DType dtype = DType::f32;
  };
  std::string operand(const Tensor& tensor);

  std::vector<Local> values_;
  InlineVector<Tensor, kMostOperands> operands_;
  InlineVector<std::array<float, 4>, kMostNumbers> numbers_;
  std::vector<const Shader*> functions_;
  std::string steps_;  ///< a function for each
  std::string lines_;  ///< their calls
};

}  // namespace nibble
