// What of a session's state counts: the rows in use of a cache, or a whole buffer. Who copies, keeps or sends a
// session's state asks here.
#pragma once

#include <span>
#include <vector>

#include "plan/plan.hpp"

namespace nibble {

/// A part of a state's buffer. Both numbers are multiples of 4, as copies on a GPU want them: a range may begin and end
/// with bytes of a neighbour, which are right as well.
struct StateRange {
  BufferId buffer = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  friend bool operator==(const StateRange&, const StateRange&) = default;
};

/// Per state of the layout: whether its rows in use are all that counts of its buffer. So it is with a cache that only
/// ops with a cache's argument touch: they read no row past those that are in use after the call, but where a mask says
/// what counts. Whoever else reads or writes a state may see all of it.
std::vector<std::uint8_t> counts_by_rows(const Plan& plan);

/// The parts of all state buffers that count, each byte once but for neighbours, with `rows` in use of each state.
/// `by_rows` comes from counts_by_rows().
std::vector<StateRange> live_ranges(const Layout& layout, std::span<const std::uint8_t> by_rows,
                                    std::span<const std::int64_t> rows);

}  // namespace nibble
