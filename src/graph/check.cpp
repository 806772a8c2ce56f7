#include "graph/check.hpp"

namespace nibble {
namespace {

Status check_end(const Graph& graph, std::string_view what, std::string_view end, std::size_t i, ValueId id) {
  if (id >= graph.values.size()) {
    return fail(ErrorCode::invalid_program, "{} {} of {} is value {}, but there are {} values", end, i, what, id,
                graph.values.size());
  }
  if (graph.tensor(id) == nullptr && !std::holds_alternative<SymInt>(graph.values[id])) {
    return fail(ErrorCode::invalid_program, "{} {} of {} is value {}, which is of kind {} and not a Tensor or SymInt",
                end, i, what, id, kind_name(graph.values[id]));
  }
  return {};
}

}  // namespace

Status check_ends(const Graph& graph, std::string_view what) {
  std::vector<std::uint32_t> input_of(graph.values.size());  // 1 + its place
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const ValueId id = graph.inputs[i];
    TRY(check_end(graph, what, "input", i, id));
    if (const auto* tensor = graph.tensor(id); tensor != nullptr && tensor->constant >= 0) {
      return fail(ErrorCode::invalid_program, "input {} of {} is value {}, which is constant {}", i, what, id,
                  tensor->constant);
    }
    if (input_of[id] != 0) {
      return fail(ErrorCode::invalid_program, "input {} of {} is value {}, which is its input {} already", i, what, id,
                  input_of[id] - 1);
    }
    input_of[id] = static_cast<std::uint32_t>(i + 1);
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) TRY(check_end(graph, what, "output", i, graph.outputs[i]));
  return {};
}

Status check_graph(const Graph& graph) {
  const auto values = graph.values.size();
  const auto constants = graph.constants.size();
  for (const auto& node : graph.nodes) {
    if (node.args.empty()) return fail(ErrorCode::invalid_program, "{}: has no arguments", node.name());
    for (auto id : node.args) {
      if (id < values) continue;
      return fail(ErrorCode::invalid_program, "an argument of {} is value {}, but the graph has {} values", node.name(),
                  id, values);
    }
  }
  for (ValueId v = 0; v < values; ++v) {
    if (const auto* tensor = graph.tensor(v); tensor != nullptr && tensor->constant >= std::ssize(graph.constants)) {
      return fail(ErrorCode::invalid_program, "value {} is constant {}, but the graph has {} constants", v,
                  tensor->constant, constants);
    }
    const auto* list = std::get_if<ValueList>(&graph.values[v]);
    if (list == nullptr) continue;
    for (auto id : list->items) {
      if (id < values) continue;
      return fail(ErrorCode::invalid_program, "list value {} holds value {}, but the graph has {} values", v, id,
                  values);
    }
  }
  for (std::size_t c = 0; c < constants; ++c) {
    for (auto part : graph.constants[c].parts) {
      if (part < constants) continue;
      return fail(ErrorCode::invalid_program, "constant {} has the part {}, but the graph has {} constants", c, part,
                  constants);
    }
  }
  return check_ends(graph, "the graph");
}

}  // namespace nibble
