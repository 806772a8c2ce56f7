// Rotated keys go straight to the cache: rotation and cache write become one op, and attention reads only the caches.
#include <algorithm>

#include "graph/passes/rewrite.hpp"

namespace nibble {
namespace {

constexpr std::string_view kPairs = "et_vk.apply_rotary_emb.default";
constexpr std::string_view kHalves = "et_vk.apply_rotary_emb_hf.default";
constexpr std::string_view kAttention = "sdpa_with_kv_cache.default";

}  // namespace

void rope_cache(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  for (std::size_t n = 0; n < rewriter.size(); ++n) {
    const Node attention = rewriter.node(n);
    if (attention.op != kAttention) continue;
    const ValueId query = attention["query"];
    const ValueId key = attention["key"];
    const auto* causal = std::get_if<bool>(&graph.values[attention["is_causal"]]);
    const bool is_causal = rewriter.is_null(attention["is_causal"]) || (causal != nullptr && *causal);
    const auto rope = rewriter.producer(query);
    if (!is_causal || !rewriter.is_null(attention["attn_mask"]) || !rope || rope != rewriter.producer(key)) continue;
    // WebGPU does not let a dispatch write one buffer by two bindings.
    if (attention["key_cache"] == attention["value_cache"]) continue;
    if (rewriter.uses(query) != 1 || rewriter.uses(key) != 1) continue;
    if (rewriter.is_output(query) || rewriter.is_output(key)) continue;
    const Node rotation = rewriter.node(*rope);
    const bool is_halves = rotation.op == kHalves;
    if (rotation.op != kPairs && !is_halves) continue;
    const auto* outs = std::get_if<ValueList>(&graph.values[rotation["out"]]);
    if (outs == nullptr || outs->items != std::vector{query, key}) continue;
    // The rotation moves after other nodes, which must not change what it reads.
    if (!std::ranges::all_of(rotation.inputs(), [&](ValueId v) { return rewriter.is_steady(v); })) continue;

    rewriter.remove(*rope);
    rewriter.replace(n,
                     rewriter.make("nibble.rope_update_cache",
                                   {{"xq", rotation["xq"]},
                                    {"xk", rotation["xk"]},
                                    {"value", attention["value"]},
                                    {"freqs_cos", rotation["freqs_cos"]},
                                    {"freqs_sin", rotation["freqs_sin"]},
                                    {"key_cache", attention["key_cache"]},
                                    {"value_cache", attention["value_cache"]},
                                    {"start_pos", attention["start_pos"]},
                                    {"rope_start", is_halves ? rotation["start_pos"] : rewriter.add(std::int64_t{0})},
                                    {"is_halves", rewriter.add(is_halves)},
                                    {"out", query}}));
    rewriter.insert_after(n, rewriter.make("llama.custom_sdpa.default", {{"query", query},
                                                                         {"key_cache", attention["key_cache"]},
                                                                         {"value_cache", attention["value_cache"]},
                                                                         {"start_pos", attention["start_pos"]},
                                                                         {"dropout_p", attention["dropout_p"]},
                                                                         {"is_causal", rewriter.add(true)},
                                                                         {"scale", attention["scale"]},
                                                                         {"out", attention["out"]}}));
  }
  rewriter.finish();
}

}  // namespace nibble
