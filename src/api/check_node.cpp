#include "api/check_node.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "api/json.hpp"
#include "ops/registry.hpp"
#include "plan/plan.hpp"
#include "program/checks.hpp"

namespace nibble {
namespace {

// Limits that keep planning quick.
constexpr std::uint64_t kMostBytes = 1ULL << 40;
constexpr std::size_t kMostQuoted = 300;

std::unexpected<Error> not_a_node(const Json& json) {
  auto text = json.dump(-1, Json::Letters::ascii);
  if (text.size() > kMostQuoted) text.replace(kMostQuoted, std::string::npos, "...");
  return fail(ErrorCode::invalid_argument, "{} describes no node, argument or tensor", text);
}

/// Numbers beyond 63 bits are none.
std::optional<std::int64_t> int_of(const Json& json) {
  if (const auto* below = json.as<std::int64_t>()) return *below;
  const auto* count = json.as<std::uint64_t>();
  if (count == nullptr || *count > INT64_MAX) return std::nullopt;
  return static_cast<std::int64_t>(*count);
}

std::optional<bool> flag_of(const Json& json) {
  const auto* flag = json.as<bool>();
  return flag != nullptr ? std::optional(*flag) : std::nullopt;
}

bool is_set(const Json& json, std::string_view name) {
  const Json* flag = json.find(name);
  return flag != nullptr && flag_of(*flag) == true;
}

/// All of a list as List's items, or nothing.
template <class List>
std::optional<List> list_of(const Json::Array& items, auto item_of) {
  List list;
  for (const auto& item : items) {
    const auto one = item_of(item);
    if (!one) return std::nullopt;
    list.push_back(*one);
  }
  return list;
}

/// Reads the graph of one node. What has no bytes is an input; no constant's bytes are needed to plan.
struct NodeReader {
  Graph graph;
  bool makes = false;  ///< reading outputs

  ValueId add(Value value) {
    const auto id = static_cast<ValueId>(graph.values.size());
    const bool is_live = std::holds_alternative<SymInt>(value);
    const auto* tensor = std::get_if<TensorValue>(&value);
    if (makes && (is_live || tensor != nullptr)) {
      graph.outputs.push_back(id);
    } else if (is_live || (tensor != nullptr && tensor->constant < 0)) {
      graph.inputs.push_back(id);
    }
    graph.values.push_back(std::move(value));
    return id;
  }

  Result<ValueId> tensor(const Json& json) {
    constexpr DType kTypes[] = {DType::boolean, DType::u8, DType::i8, DType::i32, DType::f16, DType::f32};
    const Json* name = json.find("dtype");
    const Json* shape = json.find("shape");
    const auto* text = name != nullptr ? name->as<std::string>() : nullptr;
    const auto* dims = shape != nullptr ? shape->as<Json::Array>() : nullptr;
    const auto* dtype = std::ranges::find_if(kTypes, [&](DType t) { return text != nullptr && *text == to_string(t); });
    if (dtype == std::end(kTypes) || dims == nullptr) return not_a_node(json);
    TensorValue tensor{*dtype, *dtype, {}};
    tensor.fixed = is_set(json, "fixed");
    for (const auto& dim : *dims) {
      const auto size = int_of(dim);
      if (!size || *size < 0 || !tensor.shape.push_back(*size)) return not_a_node(json);
    }
    const auto bytes = tensor_bytes(tensor.shape, tensor.dtype, "a tensor");
    if (!bytes || *bytes > kMostBytes)
      return fail(ErrorCode::unsupported, "a tensor of shape {} is too large", tensor.shape);
    if (is_set(json, "constant")) {
      tensor.constant = static_cast<std::int32_t>(graph.constants.size());
      graph.constants.push_back({*bytes, {}, 0, true});
    }
    return add(tensor);
  }

  /// A list as the exporter writes it.
  Result<ValueId> list(const Json::Array& items) {
    if (auto ints = list_of<IntList>(items, int_of)) return add(std::move(*ints));
    if (auto flags = list_of<BoolList>(items, flag_of)) return add(std::move(*flags));
    if (auto numbers = list_of<DoubleList>(items, [](const Json& item) { return item.number(); }))
      return add(std::move(*numbers));
    ValueList list;
    for (const auto& item : items) {
      TRY_ASSIGN(const auto id, value(item));
      list.items.push_back(id);
    }
    return add(std::move(list));
  }

  Result<ValueId> value(const Json& json) {
    if (json.is_null()) return add(Null{});
    if (const auto flag = flag_of(json)) return add(*flag);
    if (const auto integer = int_of(json)) return add(*integer);
    if (const auto number = json.number()) return add(*number);
    if (const auto* text = json.as<std::string>()) return add(*text);
    if (const auto* items = json.as<Json::Array>()) return list(*items);
    return json.as<Json::Object>()->empty() ? add(SymInt{}) : tensor(json);
  }

  Status node(const Json& json) {
    const Json* op = json.find("op");
    const Json* given = json.find("arguments");
    const auto* name = op != nullptr ? op->as<std::string>() : nullptr;
    const auto* arguments = given != nullptr ? given->as<Json::Array>() : nullptr;
    if (name == nullptr || arguments == nullptr) return not_a_node(json);
    Node node{*name, {}};
    for (const auto& argument : *arguments) {
      TRY_ASSIGN(const auto id, value(argument));
      node.args.push_back(id);
    }
    makes = true;
    const Json* made = json.find("out");
    TRY_ASSIGN(const auto out, value(made != nullptr ? *made : Json()));
    node.args.push_back(out);
    graph.nodes.push_back(std::move(node));
    return {};
  }
};

}  // namespace

Status check_node(std::string_view json) {
  NodeReader reader;
  const auto node = Json::parse(json);
  if (!node) return fail(ErrorCode::invalid_argument, "the node {}", node.error().message);
  TRY(reader.node(*node));
  // How large a buffer may be is the device's affair.
  DeviceProfile profile;
  profile.limits.max_buffer_size = std::numeric_limits<std::uint32_t>::max();
  profile.limits.max_storage_binding_size = profile.limits.max_buffer_size;
  if (auto plan = Plan::make(std::move(reader.graph), profile, {}, ops::registry()); !plan) {
    return std::unexpected(std::move(plan).error());
  }
  return {};
}

}  // namespace nibble
