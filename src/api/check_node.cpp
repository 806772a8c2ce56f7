#include "api/check_node.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "ops/registry.hpp"
#include "plan/plan.hpp"
#include "program/checks.hpp"

namespace nibble {
namespace {

using Json = nlohmann::ordered_json;

// Limits that keep reading and planning quick. Tensors of a node are no deeper than lists of lists.
constexpr int kMostDepth = 16;
constexpr std::uint64_t kMostBytes = 1ULL << 40;
constexpr std::size_t kMostQuoted = 300;

std::unexpected<Error> not_a_node(const Json& json) {
  auto text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMostQuoted) text.replace(kMostQuoted, std::string::npos, "...");
  return fail(ErrorCode::invalid_argument, "{} describes no node, argument or tensor", text);
}

/// Numbers beyond 63 bits are none.
bool is_int(const Json& json) {
  return json.is_number_integer() && (!json.is_number_unsigned() || json.get<std::uint64_t>() <= INT64_MAX);
}

Result<Json> parse(std::string_view text) {
  bool is_deep = false;
  const auto look = [&](int depth, Json::parse_event_t, const Json&) {
    is_deep = is_deep || depth > kMostDepth;
    return !is_deep;
  };
  Json json = Json::parse(text, look, false);
  if (is_deep) return fail(ErrorCode::invalid_argument, "the node has lists in lists, deeper than {}", kMostDepth);
  if (json.is_discarded()) return fail(ErrorCode::invalid_argument, "the node is no JSON");
  return json;
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
    const auto* dtype = std::ranges::find_if(
        kTypes, [&](DType type) { return json.value("dtype", Json()) == std::string(to_string(type)); });
    const Json dims = json.value("shape", Json());
    if (dtype == std::end(kTypes) || !dims.is_array()) return not_a_node(json);
    TensorValue tensor{*dtype, *dtype, {}};
    tensor.fixed = json.value("fixed", Json()) == true;
    for (const auto& dim : dims) {
      if (!dim.is_number_unsigned() || !is_int(dim) || !tensor.shape.push_back(dim.get<std::int64_t>()))
        return not_a_node(json);
    }
    const auto bytes = tensor_bytes(tensor.shape, tensor.dtype, "a tensor");
    if (!bytes || *bytes > kMostBytes)
      return fail(ErrorCode::unsupported, "a tensor of shape {} is too large", tensor.shape);
    if (json.value("constant", Json()) == true) {
      tensor.constant = static_cast<std::int32_t>(graph.constants.size());
      graph.constants.push_back({*bytes, {}, 0, true});
    }
    return add(tensor);
  }

  /// A list as the exporter writes it.
  Result<ValueId> list(const Json& json) {
    if (std::ranges::all_of(json, is_int)) return add(json.get<IntList>());
    if (std::ranges::all_of(json, &Json::is_boolean)) return add(json.get<BoolList>());
    if (std::ranges::all_of(json, &Json::is_number)) return add(json.get<DoubleList>());
    ValueList list;
    for (const auto& item : json) {
      TRY_ASSIGN(const auto id, value(item));
      list.items.push_back(id);
    }
    return add(std::move(list));
  }

  Result<ValueId> value(const Json& json) {
    if (json.is_null()) return add(Null{});
    if (json.is_boolean()) return add(json.get<bool>());
    if (is_int(json)) return add(json.get<std::int64_t>());
    if (json.is_number()) return add(json.get<double>());
    if (json.is_string()) return add(json.get<std::string>());
    if (json.is_array()) return list(json);
    return json.empty() ? add(SymInt{}) : tensor(json);
  }

  Status node(const Json& json) {
    if (!json.is_object()) return not_a_node(json);
    const Json op = json.value("op", Json());
    const Json arguments = json.value("arguments", Json());
    if (!op.is_string() || !arguments.is_array()) return not_a_node(json);
    Node node{op.get<std::string>(), {}};
    for (const auto& argument : arguments) {
      TRY_ASSIGN(const auto id, value(argument));
      node.args.push_back(id);
    }
    makes = true;
    TRY_ASSIGN(const auto out, value(json.value("out", Json())));
    node.args.push_back(out);
    graph.nodes.push_back(std::move(node));
    return {};
  }
};

}  // namespace

Status check_node(std::string_view json) {
  NodeReader reader;
  TRY_ASSIGN(const auto node, parse(json));
  TRY(reader.node(node));
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
