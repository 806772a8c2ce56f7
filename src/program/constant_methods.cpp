#include "program/constant_methods.hpp"

#include <cmath>
#include <optional>

#include "program_generated.h"

namespace nibble {

namespace et = executorch_flatbuffer;

namespace {

std::string json(std::int64_t value) { return fmt::format("{}", value); }
std::string json(bool value) { return value ? "true" : "false"; }

std::string json(double value) {
  if (!std::isfinite(value)) return "null";
  const std::string text = fmt::format("{}", value);
  // Keep a double recognizable for readers that distinguish 2 from 2.0.
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string json(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    const auto c = static_cast<unsigned char>(text[i]);
    if (length == 0) {
      out += "\\ufffd";
    } else if (c < 0x20) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += text.substr(i, length);
    }
    i += length == 0 ? 1 : length;
  }
  return out + '"';
}

/// JSON text, or nothing for a value that is not plain data.
using MaybeJson = Result<std::optional<std::string>>;

template <class Item, class T>
MaybeJson json_list(const flatbuffers::Vector<T>* items, Budget& budget) {
  TRY(budget.spend(Size(length(items)) * sizeof(T)));
  std::string out = "[";
  for (std::size_t i = 0; i < length(items); ++i) {
    if (i != 0) out += ", ";
    out += json(static_cast<Item>(get(items, i)));
  }
  return out + ']';
}

/// An IntList holds ids of Int values, not numbers.
MaybeJson int_list_json(const et::ExecutionPlan& plan, const flatbuffers::Vector<std::int64_t>* ids, Budget& budget) {
  std::string out = "[";
  for (std::size_t i = 0; i < length(ids); ++i) {
    const std::int64_t id = get(ids, i);
    if (id < 0 || static_cast<std::uint64_t>(id) >= length(plan.values())) return std::nullopt;
    const auto* value = get(plan.values(), id)->val_as_Int();
    if (value == nullptr) return std::nullopt;
    TRY(budget.spend(sizeof(std::int64_t)));
    if (i != 0) out += ", ";
    out += json(value->int_val());
  }
  return out + ']';
}

MaybeJson value_json(const et::ExecutionPlan& plan, std::int64_t id, Budget& budget) {
  using et::KernelTypes;
  TRY(budget.spend(sizeof(std::int64_t)));
  if (id < 0 || static_cast<std::uint64_t>(id) >= length(plan.values())) return std::nullopt;
  const auto& value = *get(plan.values(), id);
  if (value.val() == nullptr) return std::nullopt;
  switch (value.val_type()) {
    case KernelTypes::Null: return "null";
    case KernelTypes::Int: return json(value.val_as_Int()->int_val());
    case KernelTypes::Bool: return json(value.val_as_Bool()->bool_val());
    case KernelTypes::Double: return json(value.val_as_Double()->double_val());
    case KernelTypes::String: {
      const auto* text = value.val_as_String()->string_val();
      if (text == nullptr) return std::nullopt;
      TRY(budget.spend(text->size()));
      return json(std::string_view(text->c_str(), text->size()));
    }
    case KernelTypes::IntList: return int_list_json(plan, value.val_as_IntList()->items(), budget);
    case KernelTypes::DoubleList: return json_list<double>(value.val_as_DoubleList()->items(), budget);
    case KernelTypes::BoolList: return json_list<bool>(value.val_as_BoolList()->items(), budget);
    default: return std::nullopt;
  }
}

Result<std::optional<ConstantMethod>> constant_method(const et::ExecutionPlan& plan, std::string_view name,
                                                      Budget& budget) {
  ConstantMethod method{.name = std::string(name), .values = {}};
  for (std::size_t i = 0; i < length(plan.outputs()); ++i) {
    TRY_ASSIGN(auto text, value_json(plan, get(plan.outputs(), i), budget));
    if (!text) return std::nullopt;
    method.values.push_back(std::move(*text));
  }
  if (method.values.empty()) return std::nullopt;
  return method;
}

}  // namespace

bool computes(const et::ExecutionPlan& plan) {
  for (std::size_t i = 0; i < length(plan.chains()); ++i) {
    if (length(get(plan.chains(), i)->instructions()) != 0) return true;
  }
  return false;
}

Result<std::vector<ConstantMethod>> read_constant_methods(const et::Program& program, Budget& budget) {
  std::vector<ConstantMethod> methods;
  for (std::size_t i = 0; i < length(program.execution_plan()); ++i) {
    const auto& plan = *get(program.execution_plan(), i);
    if (computes(plan)) continue;
    TRY_ASSIGN(const auto name, read_name(plan.name(), fmt::format("the name of method {}", i)));
    TRY(budget.spend(name.size()));
    TRY_ASSIGN(auto method, constant_method(plan, name, budget));
    if (method) methods.push_back(std::move(*method));
  }
  return methods;
}

}  // namespace nibble
