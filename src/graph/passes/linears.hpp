// 4-bit linears of one input that a pass may join: their weights are stored one after another, and so are their scales.
#pragma once

#include "graph/passes/rewrite.hpp"

namespace nibble {

inline constexpr std::string_view kLinear = "et_vk.linear_q4gsw.default";

/// The arguments of kLinear.
struct Linear {
  std::size_t node = 0;
  ValueId x = 0, weight = 0, scales = 0, group_size = 0, out = 0;
};

/// Node n, if it is a linear without bias that may be joined.
std::optional<Linear> joinable_linear(const Rewriter& rewriter, const Graph& graph, std::size_t n);

bool can_join(const Rewriter& rewriter, const Graph& graph, const PassContext& context,
              std::span<const Linear> linears);

/// The linears as one node of `op`, which makes `out`.
Node join(Rewriter& rewriter, std::string_view op, std::span<const Linear> linears, ValueId out,
          std::string origin = {});

}  // namespace nibble
