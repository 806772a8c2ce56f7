// Stores KV caches in half precision. This changes results, so it is an option, off by default.
#include "graph/passes/passes.hpp"

namespace nibble {

void f16_caches(Graph& graph) {
  std::vector<bool> is_cache(graph.values.size());
  std::vector<bool> is_other(graph.values.size());
  for (const auto& node : graph.nodes) {
    for_each_operand(graph, node, [&](ValueId v, const Arg& arg) {
      // All ops that write or read a KV cache name that argument so.
      (arg.name.ends_with("cache") ? is_cache : is_other)[v] = true;
    });
  }
  for (auto v : graph.outputs) is_other[v] = true;
  for (auto v : graph.inputs) is_other[v] = true;
  for (ValueId v = 0; v < graph.values.size(); ++v) {
    auto* tensor = graph.tensor(v);
    if (tensor != nullptr && is_cache[v] && !is_other[v] && tensor->constant >= 0 && tensor->dtype == DType::f32) {
      tensor->dtype = DType::f16;
      tensor->narrowed = true;
    }
  }
}

}  // namespace nibble
