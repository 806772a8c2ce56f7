#include "graph/passes/passes.hpp"

namespace nibble {

Status fold_prepack(Graph& graph) {
  std::vector<Node> kept;
  std::vector<bool> is_input(graph.values.size());
  for (auto v : graph.inputs) is_input[v] = true;
  for (auto& node : graph.nodes) {
    if (node.op != "et_vk.prepack.default") {
      kept.push_back(std::move(node));
      continue;
    }
    const auto* source = graph.tensor(node["self"]);
    auto* target = graph.tensor(node["out"]);
    if (source == nullptr || target == nullptr || source->constant < 0) {
      return fail(ErrorCode::invalid_program, "{}: self must be a constant tensor and out a tensor", node.name());
    }
    if (source->dtype != target->dtype || !(source->shape == target->shape) || target->constant >= 0 ||
        is_input[node["out"]]) {
      return fail(ErrorCode::invalid_program,
                  "{}: the output must be a tensor of its own like the constant ({} {}), but it is {} {}", node.name(),
                  source->dtype, source->shape, target->dtype, target->shape);
    }
    target->constant = source->constant;
  }
  graph.nodes = std::move(kept);
  return {};
}

}  // namespace nibble
