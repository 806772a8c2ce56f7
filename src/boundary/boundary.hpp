// Decides what a caller may pass, and words the errors, for both the C++ and the TypeScript executor. It uses no GPU
// and converts no elements.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "boundary/elements.hpp"
#include "boundary/rank.hpp"
#include "boundary/signature.hpp"
#include "plan/stepper.hpp"

namespace nibble {

/// An input as the caller passes it.
struct GivenInput {
  enum class Kind : std::uint8_t {
    tensor,   ///< elements of one type
    numbers,  ///< elements without a type, such as a list: they become what the program takes
    number,   ///< a single number
  };
  Kind kind = Kind::tensor;
  DType dtype = DType::f32;  ///< of a tensor
  /// Set if the input cannot be expressed: the name of a tensor's type, or a number that is not an int64. Errors quote
  /// it.
  std::string_view word = {};
  std::optional<Shape> shape = {};           ///< none: inferred from the number of elements
  std::optional<std::uint64_t> count = {};   ///< how many elements there are; none: as many as the shape says
  std::optional<std::int64_t> integer = {};  ///< the number, or the only element, if it is an int64
};

/// An accepted input: a tensor's shape, or an integer.
struct TakenInput {
  bool is_int = false;
  Shape shape;
  std::int64_t integer = 0;
};

/// Immutable once its inputs are named; shared by all sessions of a model.
class Boundary {
 public:
  /// Outputs that an option added to the graph come after the method's own.
  Boundary(MethodSignature signature, std::shared_ptr<const Plan> plan);

  const MethodSignature& signature() const { return signature_; }
  const std::shared_ptr<const Plan>& plan() const { return plan_; }

  /// Gives an input a name for errors ("input ids"). Without one, errors use its number.
  void name_input(std::size_t input, std::string_view name);
  const std::string& label(std::size_t input) const { return labels_[input]; }

  /// Checks the inputs of a call. `taken` has room for all inputs of the method.
  Status take(std::span<const GivenInput> given, std::span<TakenInput> taken) const;
  /// Passes what take() accepted to the stepper.
  Status set(Stepper& stepper, std::span<const TakenInput> taken) const;

  /// The allowed values of a graph input's elements, and the method's input that it is.
  Range range(std::size_t graph_input) const;
  std::size_t method_input(std::size_t graph_input) const { return method_inputs_[graph_input]; }
  /// Whether the GPU, the stepper or a check needs its elements.
  bool wants_elements(std::size_t graph_input) const;
  /// The error for an element that is out of range or not a number. `stepper` knows the live shape.
  Error bad_element(const Stepper& stepper, std::size_t graph_input, const BadElement& element) const;

  /// Checks the caller's memory for an output. `only`: the required dtype when the output is a copy of an input or of
  /// another output.
  Status check_output(std::size_t output, const HostOutput& to, const Shape& shape, std::optional<DType> only) const;

 private:
  Result<TakenInput> take_one(std::size_t input, const GivenInput& given) const;
  Result<TakenInput> take_integer(std::size_t input, const GivenInput& given) const;
  Result<Shape> take_shape(std::size_t input, const GivenInput& given) const;
  Result<Shape> infer_shape(std::size_t input, std::uint64_t count) const;
  const InputDesc* desc(std::size_t input) const;

  MethodSignature signature_;
  std::shared_ptr<const Plan> plan_;
  std::vector<std::string> labels_;         ///< per input of the method: "input 0"
  std::vector<std::size_t> method_inputs_;  ///< per input of the graph
};

/// Errors that other code finds before a Boundary can.
Error wrong_input_count(std::size_t given, std::size_t wanted);
Error wrong_output_count(std::size_t given, std::size_t wanted);

}  // namespace nibble
