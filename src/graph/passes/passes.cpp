#include "graph/passes/passes.hpp"

#include <algorithm>
#include <array>

namespace nibble {
namespace {

constexpr std::array kPasses = {
    Pass{"views", drop_views, "replaces views that keep the shape by their source"},
    Pass{"batch_norm", batch_norm, "makes one convolution of a convolution and a batch norm"},
    Pass{"round_inputs", round_inputs, "rounds the input of linears with 8-bit activations once for all of them"},
    Pass{"common_subexpressions", common_subexpressions, "computes only once what has the same inputs"},
    Pass{"quantize_pairs", quantize_pairs, "leaves bytes as they are that become floats and the same bytes again"},
    Pass{"offset_linears", offset_linears, "puts the offsets of groups of 4-bit weights into their linear"},
    Pass{"dead_values", dead_values, "removes what nobody reads"},
    Pass{"gate_up", gate_up, "makes one linear of silu(gate) * up"},
    Pass{"join_linears", join_linears, "makes one linear of several with one input, such as q, k and v"},
    Pass{"add_rms_norm", add_rms_norm, "makes one op of a sum and its norm"},
    Pass{"rope_cache", rope_cache, "makes one op of rotating q and k and writing k and v to the caches"},
    Pass{"elementwise_chains", elementwise_chains, "makes one kernel of elementwise ops that read each other"},
    Pass{"epilogues", epilogues, "puts elementwise ops into the kernel of the op before them"},
};

}  // namespace

std::span<const Pass> passes() { return kPasses; }

Status run_passes(Graph& graph, const PassContext& context, std::span<const std::string> without) {
  for (const auto& name : without) {
    if (std::ranges::find(kPasses, name, &Pass::name) == kPasses.end()) {
      std::vector<std::string_view> names;
      names.reserve(kPasses.size());
      for (const auto& pass : kPasses) names.push_back(pass.name);
      return fail(ErrorCode::invalid_argument, "there is no pass '{}'; the passes are {}", name, joined(names));
    }
  }
  StopCheck stop(context.is_stop_wanted);
  for (const auto& pass : kPasses) {
    if (std::ranges::find(without, pass.name) != without.end()) continue;
    TRY(stop.after(graph.nodes.size()));
    pass.run(graph, context);
  }
  return {};
}

}  // namespace nibble
