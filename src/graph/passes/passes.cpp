#include "graph/passes/passes.hpp"

#include <algorithm>
#include <array>

namespace nibble {
namespace {

constexpr std::array kPasses = {
    Pass{"views", drop_views, "views that change no shape are their source"},
    Pass{"round_inputs", round_inputs, "the input of linears with 8-bit activations is rounded once for all of them"},
    Pass{"common_subexpressions", common_subexpressions,
         "what is computed twice from the same values is computed once"},
    Pass{"dead_values", dead_values, "what nobody reads is not computed"},
    Pass{"gate_up", gate_up, "silu(gate) * up, two linears of one input, is one linear"},
    Pass{"join_linears", join_linears, "linears of one input, as q, k and v, are one linear"},
    Pass{"add_rms_norm", add_rms_norm, "a sum and its norm are one op"},
    Pass{"rope_cache", rope_cache, "rotating q and k and writing k and v to the caches are one op"},
};

}  // namespace

std::span<const Pass> passes() { return kPasses; }

Status run_passes(Graph& graph, const PassContext& context, std::span<const std::string> without) {
  for (const auto& name : without) {
    if (std::ranges::find(kPasses, name, &Pass::name) == kPasses.end()) {
      std::vector<std::string_view> names;
      names.reserve(kPasses.size());
      for (const auto& pass : kPasses) names.push_back(pass.name);
      return fail(ErrorCode::invalid_argument, "there is no pass '{}'; the passes are {}", name,
                  fmt::join(names, ", "));
    }
  }
  for (const auto& pass : kPasses) {
    if (std::ranges::find(without, pass.name) == without.end()) pass.run(graph, context);
  }
  return {};
}

}  // namespace nibble
