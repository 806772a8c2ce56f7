// Finds out at load what calls may need: lowers each node once for every combination of variants that some live shape
// can choose.
#pragma once

#include "plan/plan.hpp"

namespace nibble {

/// What calls may need in addition to the graph's tensors.
struct Needs {
  std::vector<std::uint64_t> scratch_bytes;                ///< per node
  std::uint32_t dispatches = 0;                            ///< of a whole call, at most
  std::vector<std::pair<std::size_t, IndexCheck>> checks;  ///< per input
  std::vector<std::pair<ValueId, std::int32_t>> row_axes;  ///< of states
};

/// Fills in `parts.fixed`, `parts.pipelines`, `parts.choices`, `parts.spare` and the layout's `piece_work`. The graph,
/// the ops, the operands, the storage's entries and the layout's `batch_work` must be set before. An op that fails at
/// its largest shapes, or that this device cannot run, fails the plan; with `refusals`, it is noted there, and the
/// shapes that the program states for its results are taken as they are.
Result<Needs> explore(PlanParts& parts, IsStopWanted is_stop_wanted, Refusals* refusals = nullptr);

}  // namespace nibble
