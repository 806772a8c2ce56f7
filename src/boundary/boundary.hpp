// What a caller may pass, and the words in which it is refused: decided here once, for the C++ executor and for the
// TypeScript one. It sees no GPU and converts no element.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "boundary/elements.hpp"
#include "boundary/signature.hpp"
#include "plan/stepper.hpp"

namespace nibble {

/// An input as the caller hands it over.
struct GivenInput {
  enum class Kind : std::uint8_t {
    tensor,   ///< elements of one type
    numbers,  ///< elements of no type of their own: they are taken as what the program wants
    number,   ///< a single number
  };
  Kind kind = Kind::tensor;
  DType dtype = DType::f32;  ///< of a tensor
  /// What the caller calls what Nibble has no word for: a tensor's type, or a number that is no int64.
  std::string_view word = {};
  std::optional<Shape> shape = {};           ///< none: the number of elements shall tell it
  std::optional<std::uint64_t> count = {};   ///< elements that are there; none: as many as the shape says
  std::optional<std::int64_t> integer = {};  ///< the number, or the only element, where that is an int64
};

/// An input that a call can be made with: a tensor's shape, or an integer.
struct TakenInput {
  bool is_int = false;
  Shape shape;
  std::int64_t integer = 0;
};

/// Immutable once its inputs are named; shared by all sessions of a model.
class Boundary {
 public:
  Boundary(MethodSignature signature, std::shared_ptr<const Plan> plan);

  const MethodSignature& signature() const { return signature_; }
  const std::shared_ptr<const Plan>& plan() const { return plan_; }

  /// Errors say "input ids"; an input without a name is told by its number.
  void name_input(std::size_t input, std::string_view name);
  const std::string& label(std::size_t input) const { return labels_[input]; }

  /// Checks what a call is made with. `taken` has room for all inputs of the method.
  Status take(std::span<const GivenInput> given, std::span<TakenInput> taken) const;
  /// Tells the stepper what take() gave.
  Status set(Stepper& stepper, std::span<const TakenInput> taken) const;

  /// What the elements of an input of the graph may be, and which of the method's it is.
  Range range(std::size_t graph_input) const;
  std::size_t method_input(std::size_t graph_input) const { return method_inputs_[graph_input]; }
  /// Whether anybody looks at its elements.
  bool wants_elements(std::size_t graph_input) const;
  /// The error for an element outside its range, or that is no number; `stepper` knows the live shape.
  Error bad_element(const Stepper& stepper, std::size_t graph_input, const BadElement& element) const;

  /// Whether the caller's memory will do for an output of this live shape. `only` is the one type that it can come in,
  /// where it is a copy of something that the caller has already.
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

/// For those who find these before a Boundary can.
Error wrong_input_count(std::size_t given, std::size_t wanted);
Error wrong_output_count(std::size_t given, std::size_t wanted);
Error too_many_dimensions(std::string_view label, std::uint64_t rank);

}  // namespace nibble
