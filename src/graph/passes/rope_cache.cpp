// Rotated keys go straight to the cache: rotation and cache write are one op, and attention reads the caches alone.
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
    if (attention.op != kAttention || attention.args.size() != 12) continue;
    const auto& a = attention.args;  // query, key, value, caches, start_pos, seq_len, mask, dropout, is_causal, scale
    const auto* causal = std::get_if<bool>(&graph.values[a[9]]);
    const bool is_plain = rewriter.is_null(a[7]) && (rewriter.is_null(a[9]) || (causal != nullptr && *causal));
    const auto rope = rewriter.maker(a[0]);
    if (!is_plain || !rope || rope != rewriter.maker(a[1]) || rewriter.reads(a[0]) != 1 || rewriter.reads(a[1]) != 1) {
      continue;
    }
    if (rewriter.is_output(a[0]) || rewriter.is_output(a[1])) continue;
    const Node rotation = rewriter.node(*rope);
    const bool is_pairs = rotation.op == kPairs && rotation.args.size() == 5;
    const bool is_halves = rotation.op == kHalves && rotation.args.size() == 6;
    if (!is_pairs && !is_halves) continue;
    const auto* outs = std::get_if<ValueList>(&graph.values[rotation.args.back()]);
    if (outs == nullptr || outs->items != std::vector{a[0], a[1]}) continue;
    // Moved behind other nodes, it must still read what it read before.
    bool is_steady = true;
    for (std::size_t i = 0; i < 4; ++i) is_steady = is_steady && rewriter.is_steady(rotation.args[i]);
    if (!is_steady) continue;

    const auto& r = rotation.args;  // q, k, cos, sin, perhaps the tables' first row
    const ValueId rope_start = is_halves ? r[4] : rewriter.add(std::int64_t{0});
    const ValueId form = rewriter.add(std::int64_t{is_halves ? 1 : 0});
    const ValueId null = rewriter.add(Null{});
    rewriter.remove(*rope);
    rewriter.replace(
        n, {"nibble.rope_update_cache", {r[0], r[1], a[2], r[2], r[3], a[3], a[4], a[5], rope_start, form, a[0]}});
    rewriter.insert_after(
        n, {"llama.custom_sdpa.default", {a[0], a[3], a[4], a[5], null, a[8], rewriter.add(true), a[10], a[11]}});
  }
  rewriter.finish();
}

}  // namespace nibble
