// What there is to tune in a plan: which of its choices have several right variants, and at which sizes.
#pragma once

#include <optional>

#include "graph/stop.hpp"
#include "plan/stepper.hpp"

namespace nibble {

/// What a tuned variant is looked up by.
struct TuningPoint {
  const Choice* choice = nullptr;
  std::uint32_t traits = 0;
  std::uint64_t rows = 1;
  std::uint64_t width = 1;
  std::optional<std::uint64_t> depth = {};  ///< if the choice knows one

  friend bool operator==(const TuningPoint&, const TuningPoint&) = default;
};

/// A node in a call, and a choice of it with several right variants.
struct TuningCase {
  TuningPoint point;
  std::vector<std::size_t> variants;  ///< the right ones; the first is what the plan selects
  std::uint32_t node = 0;
  std::size_t call = 0;
  std::size_t position = 0;  ///< which of the positions at these sizes the call has
  std::size_t alike = 1;     ///< nodes of the call that do the same
  std::uint64_t work = 0;    ///< of one of them
};

/// Calls of small and large sizes, and what to measure in them.
struct TuningCases {
  struct Call {
    LiveValues live;
    std::int32_t integer = 0;  ///< what integers and integer tensors of the caller are
  };
  std::vector<Call> calls;
  /// Those of one node side by side, by call; nodes with the most work first.
  std::vector<TuningCase> cases;
  bool is_complete = true;  ///< the search was not stopped
};

/// The check is asked between the calls that are planned: true ends the search, with what was found until then.
TuningCases find_cases(const std::shared_ptr<const Plan>& plan, IsStopWanted is_stop_wanted = nullptr);

/// Sizes of the dimensions that may be smaller, by how much they are all together: 1, 2, 4, 16, 64, … up to the
/// largest. `bounds`: the most that each may be, the largest first.
std::vector<std::vector<std::int64_t>> size_ladder(std::span<const std::int64_t> bounds);

}  // namespace nibble
