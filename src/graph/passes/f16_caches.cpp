// KV caches in half precision. Not a rewrite that keeps results as they are, so it is an option, and off.
#include <algorithm>
#include <array>

#include "graph/passes/passes.hpp"

namespace nibble {
namespace {

struct CacheOp {
  std::string_view name;
  std::array<std::size_t, 2> caches;  ///< its arguments that are caches
};

constexpr std::array kCacheOps = {
    CacheOp{"sdpa_with_kv_cache.default", {3, 4}},
    CacheOp{"nibble.rope_update_cache", {5, 6}},
    CacheOp{"update_cache.default", {1, 1}},
    CacheOp{"llama.custom_sdpa.default", {1, 2}},
};

}  // namespace

void f16_caches(Graph& graph) {
  std::vector<bool> is_cache(graph.values.size());
  std::vector<bool> is_other(graph.values.size());
  for (const auto& node : graph.nodes) {
    const auto op = std::ranges::find(kCacheOps, node.op, &CacheOp::name);
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      const bool here = op != kCacheOps.end() && std::ranges::find(op->caches, i) != op->caches.end();
      (here ? is_cache : is_other)[node.args[i]] = true;
      if (const auto* list = std::get_if<ValueList>(&graph.values[node.args[i]])) {
        for (auto item : list->items) is_other[item] = true;
      }
    }
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
