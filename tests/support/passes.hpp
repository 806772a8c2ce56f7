// Graph rewrites run alone, on graphs that tests make by hand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/passes/passes.hpp"
#include "ops/registry.hpp"
#include "plan/lowering.hpp"
#include "support/graph_builder.hpp"

namespace nibble::test {

/// So many nodes fit a file of a few megabytes: the work must not grow with their square. Fewer under a sanitizer,
/// which takes ten times as long.
#ifdef __has_feature
inline constexpr std::size_t kVeryManyNodes = __has_feature(address_sanitizer) ? 20000 : 100000;
#else
inline constexpr std::size_t kVeryManyNodes = 100000;
#endif

/// An op that changes its argument.
inline Status write_in_place(Lowering&, const State&, Out&) { return {}; }
inline constexpr Op kWrite = op<write_in_place>("test.write", "x -> out");

inline const Signature* signature_of(std::string_view name) {
  if (name == kWrite.name()) return &kWrite.signature;
  const Op* found = find_op(ops::registry(), name);
  return found != nullptr ? &found->signature : nullptr;
}

inline void bind(Graph& graph) {
  const auto status = bind_signatures(graph, signature_of);
  ASSERT_TRUE(status) << status.error().message;
}

/// A node with the first arguments given, the output last, and Null for all between.
inline void add_node(GraphBuilder& b, std::string op, std::vector<ValueId> args, ValueId out) {
  args.resize(signature_of(op)->count - 1, b.null());
  args.push_back(out);
  b.op(std::move(op), std::move(args));
}

inline void run(void (*pass)(Graph&, const PassContext&), Graph& graph, std::uint64_t max_constant_bytes = 1 << 20) {
  bind(graph);
  pass(graph, {signature_of, max_constant_bytes});
}

inline Status run_all(Graph& graph, std::span<const std::string> without = {}) {
  TRY(bind_signatures(graph, signature_of));
  return run_passes(graph, {signature_of, 1 << 20}, without);
}

inline std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes) names.push_back(node.op);
  return names;
}
using Names = std::vector<std::string>;

inline ValueId linear(GraphBuilder& b, ValueId x, std::int64_t k, std::int64_t n, std::int64_t group = 32) {
  const auto weight = b.constant(DType::u8, {n, k / 2}, "weight" + std::to_string(b.graph.values.size()));
  const auto scales = b.constant(DType::f32, {k / group, n}, "scales" + std::to_string(b.graph.values.size()));
  Shape shape = b.graph.tensor(x)->shape;
  shape[shape.rank() - 1] = n;
  const auto out = b.tensor(DType::f32, shape);
  b.op("et_vk.linear_q4gsw.default", {x, weight, scales, b.integer(group), b.null(), out});
  return out;
}

inline ValueId unary(GraphBuilder& b, std::string op, ValueId x) {
  const auto out = b.tensor(DType::f32, b.graph.tensor(x)->shape);
  b.op(std::move(op), {x, out});
  return out;
}

inline ValueId mul(GraphBuilder& b, ValueId x, ValueId y) {
  const auto out = b.tensor(DType::f32, b.graph.tensor(x)->shape);
  b.op("aten.mul.Tensor", {x, y, out});
  return out;
}

}  // namespace nibble::test
