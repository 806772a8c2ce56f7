// Reads a node's arguments as the types that its op's function takes.
#include "plan/arguments.hpp"

#include "plan/lowering.hpp"

namespace nibble {

std::int64_t Ints::operator[](std::size_t i) const {
  if (const auto* ints = std::get_if<IntList>(list_)) return (*ints)[i];
  if (const auto* bools = std::get_if<BoolList>(list_)) return (*bools)[i] ? 1 : 0;
  const ValueId id = std::get_if<ValueList>(list_)->items[i];
  if (const auto* integer = std::get_if<std::int64_t>(&graph_->values[id])) return *integer;
  return live_[id];
}

bool Ints::is_live(std::size_t i) const {
  const auto* list = std::get_if<ValueList>(list_);
  return list != nullptr && std::holds_alternative<SymInt>(graph_->values[list->items[i]]);
}

std::unexpected<Error> Lowering::wrong_kind(std::size_t index, std::string_view wanted) const {
  return fail("{} must be {}, but it is {}", arg(index), wanted, kind_name(value(index)));
}

Status Lowering::argument(std::size_t index, Tensor& out) const {
  const auto* tensor = planned_.graph.tensor(id(index));
  if (tensor == nullptr) return wrong_kind(index, "a tensor");
  out.id = id(index);
  out.dtype = tensor->dtype;
  out.shape = live_.shapes[out.id];
  out.arg = arg(index);
  return {};
}

Status Lowering::argument(std::size_t index, Tensors& out) const {
  const auto* list = std::get_if<ValueList>(&value(index));
  if (list == nullptr) return wrong_kind(index, "a list of tensors");
  for (auto item : list->items) {
    const Value& v = planned_.graph.values[item];
    if (!std::holds_alternative<TensorValue>(v) && !std::holds_alternative<Null>(v)) {
      return fail("{} must hold tensors, but an item is {}", arg(index), kind_name(v));
    }
  }
  out = Tensors(planned_.graph, list->items, live_.shapes, arg(index));
  return {};
}

Status Lowering::argument(std::size_t index, Ids& out) const {
  TRY(argument(index, static_cast<Tensor&>(out)));
  if (out.dtype != DType::i32) return fail("{} must be int32, but it is {}", out.arg, out.dtype);
  return {};
}

Status Lowering::check_float(const Tensor& tensor) const {
  if (is_float(tensor.dtype)) return {};
  return fail("{} must be float32 or float16, but it is {}", tensor.arg, tensor.dtype);
}

Status Lowering::check_float(const Tensors& tensors) const {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors.has(i)) TRY(check_float(tensors[i]));
  }
  return {};
}

Status Lowering::argument(std::size_t index, std::string_view& out) const {
  const auto* text = std::get_if<std::string>(&value(index));
  if (text == nullptr) return wrong_kind(index, "a string");
  out = *text;
  return {};
}

Status Lowering::argument(std::size_t index, std::int64_t& out) const {
  if (std::holds_alternative<SymInt>(value(index))) return wrong_kind(index, "an integer that the program fixes");
  LiveInt integer;
  TRY(argument(index, integer));
  out = integer;
  return {};
}

Status Lowering::argument(std::size_t index, LiveInt& out) const {
  Number number;
  TRY(argument(index, number));
  if (!number.is_integer) return fail("{} must be an integer, but it is {}", arg(index), number.value);
  out = number.integer;
  return {};
}

Status Lowering::argument(std::size_t index, Number& out) const {
  const Value& v = value(index);
  const auto whole = whole_number(v);
  if (const auto* number = std::get_if<double>(&v)) {
    out = {*number, whole.has_value(), whole.value_or(0)};
  } else if (whole) {
    out = {static_cast<double>(*whole), true, *whole};
  } else if (std::holds_alternative<SymInt>(v)) {
    const auto live = live_.ints[id(index)];
    out = {static_cast<double>(live), true, live, true};
  } else {
    return wrong_kind(index, "a number");
  }
  return {};
}

Status Lowering::argument(std::size_t index, Numbers& out) const {
  if (const auto* numbers = std::get_if<DoubleList>(&value(index))) {
    for (const double number : *numbers) out.push_back(number);
  } else if (const auto* ints = std::get_if<IntList>(&value(index))) {
    for (const auto integer : *ints) out.push_back(static_cast<double>(integer));
  } else {
    return wrong_kind(index, "a list of numbers");
  }
  return {};
}

Status Lowering::argument(std::size_t index, bool& out) const {
  std::int64_t number = 0;
  TRY(argument(index, number));
  out = number != 0;
  return {};
}

Status Lowering::argument(std::size_t index, Ints& out) const { return read_ints(index, false, out); }
Status Lowering::argument(std::size_t index, LiveInts& out) const { return read_ints(index, true, out); }

Status Lowering::read_ints(std::size_t index, bool may_live, Ints& out) const {
  const Value& v = value(index);
  std::size_t size = 0;
  if (const auto* ints = std::get_if<IntList>(&v)) {
    size = ints->size();
  } else if (const auto* bools = std::get_if<BoolList>(&v)) {
    size = bools->size();
  } else if (const auto* list = std::get_if<ValueList>(&v)) {
    size = list->items.size();
    for (auto item : list->items) {
      const auto& one = planned_.graph.values[item];
      const bool is_live = std::holds_alternative<SymInt>(one);
      if (is_live && !may_live) return fail("{} must hold integers that the program fixes, not SymInts", arg(index));
      if (!is_live && !std::holds_alternative<std::int64_t>(one)) {
        return fail("{} must hold integers, but an item is {}", arg(index), kind_name(one));
      }
    }
  } else {
    return wrong_kind(index, "a list of integers");
  }
  out = Ints(planned_.graph, v, size, live_.ints);
  return {};
}

Status Lowering::argument(std::size_t index, SymIntOut& out) const {
  if (!std::holds_alternative<SymInt>(value(index))) return wrong_kind(index, "a SymInt");
  out.id = id(index);
  return {};
}

}  // namespace nibble
