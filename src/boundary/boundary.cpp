#include "boundary/boundary.hpp"

#include <algorithm>

namespace nibble {
namespace {

template <class... Args>
std::unexpected<Error> refuse(fmt::format_string<Args...> text, Args&&... args) {
  return vfail(ErrorCode::invalid_argument, text, fmt::make_format_args(args...));
}

/// `[1, 3]` for a flat position; empty for a scalar.
std::string place_of(const Shape& shape, std::uint64_t position) {
  if (shape.rank() == 0) return {};
  Shape at = shape;
  for (std::size_t i = shape.rank(); i-- > 0;) {
    const auto size = static_cast<std::uint64_t>(std::max<std::int64_t>(1, shape[i]));
    at[i] = static_cast<std::int64_t>(position % size);
    position /= size;
  }
  return to_string(at);
}

/// An input that the graph does not have is checked too, with the GPU's closest type.
DType closest_on_device(DType host) {
  if (host == DType::i64) return DType::i32;
  return host == DType::f64 ? DType::f32 : host;
}

bool is_whole(std::string_view number) {
  return number.find_first_not_of("0123456789", number.starts_with('-') ? 1 : 0) == std::string_view::npos;
}

std::string_view type_of(const GivenInput& given) { return given.word.empty() ? to_string(given.dtype) : given.word; }

/// "1 input is", "2 inputs are"
std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? " is" : "s are");
}

}  // namespace

Error wrong_input_count(std::size_t given, std::size_t wanted) {
  return {ErrorCode::invalid_argument,
          fmt::format("{} given, but the program takes {}", counted(given, "input"), wanted)};
}

Error wrong_output_count(std::size_t given, std::size_t wanted) {
  return {ErrorCode::invalid_argument,
          fmt::format("{} given, but the program has {}", counted(given, "output"), wanted)};
}

Boundary::Boundary(MethodSignature signature, std::shared_ptr<const Plan> plan)
    : signature_(std::move(signature)), plan_(std::move(plan)), method_inputs_(plan_->layout().inputs.size()) {
  for (std::size_t i = 0; i < signature_.inputs.size(); ++i) {
    labels_.push_back(fmt::format("input {}", i));
    if (const auto to = signature_.graph_inputs[i]; to >= 0) method_inputs_[static_cast<std::size_t>(to)] = i;
  }
  const Graph& graph = plan_->graph();
  const auto count = graph.outputs.size();
  for (auto i = count - graph.added_outputs; i < count; ++i) add_output(signature_, graph, i);
}

void Boundary::name_input(std::size_t input, std::string_view name) { labels_[input] = fmt::format("input {}", name); }

const InputDesc* Boundary::desc(std::size_t input) const {
  const auto index = signature_.graph_inputs[input];
  return index < 0 ? nullptr : &plan_->layout().inputs[static_cast<std::size_t>(index)];
}

Status Boundary::take(std::span<const GivenInput> given, std::span<TakenInput> taken) const {
  if (given.size() != signature_.inputs.size()) {
    return std::unexpected(wrong_input_count(given.size(), signature_.inputs.size()));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    TRY_ASSIGN(taken[i], take_one(i, given[i]));
  }
  return {};
}

Result<TakenInput> Boundary::take_one(std::size_t input, const GivenInput& given) const {
  const auto& want = signature_.inputs[input];
  const auto* device = desc(input);
  // A method may pass an integer of its graph as a tensor of one element.
  if (want.is_int || (device != nullptr && device->is_symint)) return take_integer(input, given);
  if (given.kind == GivenInput::Kind::number && (want.shape.rank() != 0 || given.count != 1)) {
    return refuse("{} is {}, but the program takes a tensor of shape {}", labels_[input],
                  given.integer ? "an integer" : "a number", want.shape);
  }
  const DType dtype = device != nullptr ? device->dtype : closest_on_device(want.dtype);
  if (given.kind == GivenInput::Kind::tensor && (!given.word.empty() || !converts(dtype, given.dtype))) {
    return refuse("{} is {}, but the program takes {}", labels_[input], type_of(given), wanted_dtypes(dtype));
  }
  TRY_ASSIGN(const Shape shape, take_shape(input, given));
  return TakenInput{.is_int = false, .shape = shape, .integer = 0};
}

Result<TakenInput> Boundary::take_integer(std::size_t input, const GivenInput& given) const {
  const bool is_tensor = given.kind == GivenInput::Kind::tensor;
  if (given.integer && (!is_tensor || given.dtype == DType::i32 || given.dtype == DType::i64)) {
    return TakenInput{
        .is_int = true, .shape = is_tensor && given.shape ? *given.shape : Shape{}, .integer = *given.integer};
  }
  const auto& label = labels_[input];
  if (!is_tensor && !given.word.empty()) {
    if (!is_whole(given.word)) return refuse("{} is {}, but the program takes an integer", label, given.word);
    return fail(ErrorCode::out_of_range, "{} is {}, which does not fit 64 bits", label, given.word);
  }
  const Shape shape = given.shape ? *given.shape : Shape{static_cast<std::int64_t>(given.count.value_or(0))};
  if (is_tensor) {
    return refuse("{} is {} of shape {}, but the program takes an integer", label, type_of(given), shape);
  }
  return refuse("{} is a list of shape {}, but the program takes an integer", label, shape);
}

Result<Shape> Boundary::take_shape(std::size_t input, const GivenInput& given) const {
  const auto& want = signature_.inputs[input];
  Shape shape;
  if (given.shape) {
    shape = *given.shape;
  } else {
    TRY_ASSIGN(shape, infer_shape(input, given.count.value_or(0)));
  }
  const bool same_rank = shape.rank() == want.shape.rank();
  // The exporter may have computed constants from a fixed shape, so another shape would give wrong results.
  bool fits = same_rank && (want.dynamic || shape == want.shape);
  for (std::size_t i = 0; fits && i < shape.rank(); ++i) fits = shape[i] >= 0 && shape[i] <= want.shape[i];
  if (!fits) {
    return refuse("{} has shape {}, but the program takes {}{}", labels_[input], shape,
                  same_rank && want.dynamic ? "at most " : "", want.shape);
  }
  const auto count = static_cast<std::uint64_t>(shape.numel());
  const auto there = given.count.value_or(count);
  if (there == count) return shape;
  if (there == 0) return refuse("{} has shape {}, but no data", labels_[input], shape);
  return refuse("{} has shape {} and takes {} elements, but {} {} given", labels_[input], shape, count, there,
                there == 1 ? "is" : "are");
}

/// The number of elements is enough if the shape is fixed, or if only one dimension is not 1.
Result<Shape> Boundary::infer_shape(std::size_t input, std::uint64_t count) const {
  const auto& [dtype, bound, dynamic, is_int] = signature_.inputs[input];
  if (count == static_cast<std::uint64_t>(bound.numel())) return bound;
  const auto* word = count == 1 ? "element" : "elements";
  if (!dynamic) {
    return refuse("{} has {} {}, but the program takes the shape {}", labels_[input], count, word, bound);
  }
  if (std::ranges::count_if(bound, [](auto dim) { return dim != 1; }) == 1) {
    Shape shape = bound;
    for (std::size_t i = 0; i < bound.rank(); ++i) {
      if (bound[i] != 1) shape[i] = static_cast<std::int64_t>(count);
    }
    return shape;
  }
  return refuse("{} has {} {}, but no shape: pass one of at most {}", labels_[input], count, word, bound);
}

Status Boundary::set(Stepper& stepper, std::span<const TakenInput> taken) const {
  for (std::size_t i = 0; i < taken.size(); ++i) {
    if (signature_.graph_inputs[i] < 0) continue;
    const auto to = static_cast<std::size_t>(signature_.graph_inputs[i]);
    TRY(taken[i].is_int ? stepper.set_int(to, taken[i].integer) : stepper.set_shape(to, taken[i].shape));
  }
  return {};
}

Range Boundary::range(std::size_t graph_input) const {
  Range range;
  for (const auto& check : plan_->layout().inputs[graph_input].checks) {
    range.lowest = 0;
    range.highest = std::min(range.highest, check.rows - 1);
  }
  return range;
}

bool Boundary::wants_elements(std::size_t graph_input) const {
  const auto& desc = plan_->layout().inputs[graph_input];
  return !desc.is_symint && (desc.used || desc.host_read || !desc.checks.empty());
}

Error Boundary::bad_element(const Stepper& stepper, std::size_t graph_input, const BadElement& element) const {
  const auto& desc = plan_->layout().inputs[graph_input];
  if (element.kind == BadElement::Kind::range && element.value) {
    const auto value = *element.value;
    for (const auto& check : desc.checks) {
      if (value < 0 || value >= check.rows) {
        return stepper.describe_index(check, graph_input, element.position, value);
      }
    }
  }
  const auto what = fmt::format("{}{} is {}", labels_[method_inputs_[graph_input]],
                                place_of(stepper.input_shape(graph_input), element.position),
                                element.value ? fmt::to_string(*element.value) : std::string(element.word));
  if (element.kind == BadElement::Kind::range) {
    const auto room = desc.dtype == DType::i32 ? "the 32 bits that the GPU has" : to_string(desc.dtype);
    return {ErrorCode::out_of_range, fmt::format("{}, which does not fit {}", what, room)};
  }
  return {ErrorCode::invalid_argument,
          fmt::format("{}, but the program takes {}", what,
                      element.kind == BadElement::Kind::fraction ? "integers" : "numbers")};
}

Status Boundary::check_output(std::size_t output, const HostOutput& to, const Shape& shape,
                              std::optional<DType> only) const {
  const auto& source = signature_.output_sources[output];
  if (signature_.outputs[output].is_int) only = DType::i64;
  const DType given = only ? *only : plan_->layout().outputs[source.index].dtype;
  if (only ? to.dtype != given : !converts(given, to.dtype)) {
    return refuse("output {} is asked for as {}, but the program gives {}", output, to.dtype,
                  only ? to_string(given) : wanted_dtypes(given));
  }
  const auto bytes = Size::bytes(shape, to.dtype);
  if (!bytes.fits(to.bytes)) {
    return refuse("output {} has shape {} and takes {} bytes as {}, but {} are given", output, shape, bytes.unchecked(),
                  to.dtype, to.bytes);
  }
  return {};
}

}  // namespace nibble
