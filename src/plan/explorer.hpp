// Finds out, while a plan is made, what any call may need: each node is lowered once for every combination of variants
// that some live shape can choose.
#pragma once

#include "plan/plan.hpp"

namespace nibble {

/// What the calls of a graph may need beside its tensors.
struct Needs {
  std::vector<std::uint64_t> scratch_bytes;                ///< per node
  std::uint32_t dispatches = 0;                            ///< of a whole call, at most
  std::vector<std::pair<std::size_t, IndexCheck>> checks;  ///< per input
  std::vector<std::pair<ValueId, std::int32_t>> row_axes;  ///< of states
};

/// Works out `parts.fixed`, `parts.pipelines` and `parts.choices`; the graph, the ops, the operands and the storage's
/// entries must be there. An op's error at the largest shapes is the program's, and so is what this device cannot do.
Result<Needs> explore(PlanParts& parts);

}  // namespace nibble
