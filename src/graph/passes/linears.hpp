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

/// x, weight, scales, group_size, widths, pitches: the first arguments of a joined linear.
std::vector<ValueId> join_arguments(Rewriter& rewriter, std::span<const Linear> linears);

}  // namespace nibble
