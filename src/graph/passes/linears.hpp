// 4-bit linears of one input that a pass may join: their weights are stored one after another, and so are their scales.
#pragma once

#include "graph/passes/rewrite.hpp"

namespace nibble {

inline constexpr std::string_view kLinear = "et_vk.linear_q4gsw.default";
/// The same with an offset for each group, whose constant has offsets of the same shape behind the scales.
inline constexpr std::string_view kOffsetLinear = "nibble.linear_q4gsw_offset";

/// The arguments of kLinear or kOffsetLinear.
struct Linear {
  std::size_t node = 0;
  bool has_offsets = false;
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
