#include "graph/passes/linears.hpp"

#include <algorithm>

namespace nibble {

std::optional<Linear> joinable_linear(const Rewriter& rewriter, const Graph& graph, std::size_t n) {
  const Node& node = rewriter.node(n);
  const bool has_offsets = node.op == kOffsetLinear;
  if (rewriter.is_removed(n) || (node.op != kLinear && !has_offsets) || !rewriter.is_null(node["bias"])) return {};
  const Linear found{n,          has_offsets, node["self"], node["weights"], node["weight_scales"], node["group_size"],
                     node["out"]};
  const auto* weight = graph.tensor(found.weight);
  const auto* scales = graph.tensor(found.scales);
  if (graph.tensor(found.x) == nullptr || weight == nullptr || scales == nullptr ||
      graph.tensor(found.out) == nullptr) {
    return {};
  }
  if (weight->shape.rank() != 2 || scales->shape.rank() != 2 || !rewriter.producer(found.out)) return {};
  if (!rewriter.is_private_constant(found.weight) || !rewriter.is_private_constant(found.scales)) return {};
  // Each part writes its output in whole quads (four elements).
  if (weight->shape[0] % 4 != 0) return {};
  // Each part must begin at a multiple of 16 bytes, so that kernels read it like a constant of its own.
  if (graph.constants[weight->constant].length % 16 != 0 || graph.constants[scales->constant].length % 16 != 0) {
    return {};
  }
  return found;
}

bool can_join(const Rewriter& rewriter, const Graph& graph, const PassContext& context,
              std::span<const Linear> linears) {
  std::uint64_t bytes = 0;
  std::uint64_t scale_bytes = 0;
  for (const auto& one : linears) {
    const auto& weight = *graph.tensor(one.weight);
    const auto& first = *graph.tensor(linears[0].weight);
    const auto& scales = *graph.tensor(one.scales);
    const auto& first_scales = *graph.tensor(linears[0].scales);
    if (one.has_offsets != linears[0].has_offsets) return false;
    if (weight.dtype != first.dtype || weight.shape[1] != first.shape[1]) return false;
    if (scales.dtype != first_scales.dtype || scales.shape[0] != first_scales.shape[0]) return false;
    if (graph.tensor(one.out)->dtype != graph.tensor(linears[0].out)->dtype) return false;
    if (!rewriter.same(one.x, linears[0].x) || !rewriter.same(one.group_size, linears[0].group_size)) return false;
    bytes += graph.constants[weight.constant].length;
    scale_bytes += graph.constants[scales.constant].length;
  }
  return rewriter.is_steady(linears[0].x) && std::max(bytes, scale_bytes) <= context.max_constant_bytes;
}

Node join(Rewriter& rewriter, std::string_view op, std::span<const Linear> linears, ValueId out, std::string origin) {
  std::vector<ValueId> weights;
  std::vector<ValueId> scales;
  IntList widths;
  IntList pitches;
  std::int64_t rows = 0;
  std::int64_t scale_count = 0;
  const Graph& graph = rewriter.graph();
  for (const auto& one : linears) {
    const auto& weight = *graph.tensor(one.weight);
    const auto& scale = *graph.tensor(one.scales);
    weights.push_back(one.weight);
    scales.push_back(one.scales);
    widths.push_back(weight.shape[0]);
    pitches.push_back(scale.shape[1]);
    rows += weight.shape[0];
    scale_count += scale.shape.numel();
  }
  const auto weight_type = graph.tensor(linears[0].weight)->dtype;
  const auto scale_type = graph.tensor(linears[0].scales)->dtype;
  Shape weight_shape;
  weight_shape.push_back(rows);
  weight_shape.push_back(graph.tensor(linears[0].weight)->shape[1]);
  Shape scale_shape;
  scale_shape.push_back(scale_count);
  return rewriter.make(op,
                       {{"self", linears[0].x},
                        {"weights", rewriter.join(weights, weight_type, weight_shape)},
                        {"weight_scales", rewriter.join(scales, scale_type, scale_shape)},
                        {"group_size", linears[0].group_size},
                        {"widths", rewriter.add(std::move(widths))},
                        {"pitches", rewriter.add(std::move(pitches))},
                        {"has_offsets", rewriter.add(linears[0].has_offsets)},
                        {"out", out}},
                       std::move(origin));
}

}  // namespace nibble
