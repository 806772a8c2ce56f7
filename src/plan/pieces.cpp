#include "plan/pieces.hpp"

#include <algorithm>

#include "graph/size.hpp"

namespace nibble {
namespace {

using Groups = std::array<std::uint32_t, 3>;

std::uint64_t count_of(const Groups& grid) { return std::uint64_t{grid[0]} * grid[1] * grid[2]; }

std::uint64_t div_up(std::uint64_t a, std::uint64_t b) { return a / b + (a % b == 0 ? 0 : 1); }

/// A grid of at most `groups` workgroups, and hardly fewer: a piece must not have more than its own, because the next
/// piece does the others.
Groups grid_within(std::uint64_t groups, const Limits& limits) {
  const std::uint64_t most = std::max(1U, limits.max_workgroups_per_dimension);
  const auto layers = div_up(groups, most * most);
  const auto rows = div_up(groups / layers, most);
  const auto columns = groups / layers / rows;
  return {static_cast<std::uint32_t>(columns), static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(layers)};
}

/// Estimates of more than this are all alike, and 64 bits hold their sums.
constexpr std::uint64_t kMostWork = std::uint64_t{1} << 62;

}  // namespace

Pieces::Pieces(std::uint64_t threads, const Grid& whole, std::uint64_t work, std::uint64_t most_work,
               std::uint32_t most, const Limits& limits)
    : groups_(std::max<std::uint64_t>(1, div_up(threads, whole.workgroup))),
      work_(std::min(work, kMostWork)),
      group_work_(div_up(work_, groups_)),
      last_grid_(whole.groups) {
  if (work <= most_work || groups_ == 1) return;
  most = std::clamp(most, 1U, kMost);
  grid_ = grid_within(std::max(most_work / group_work_, div_up(groups_, most)), limits);
  step_ = count_of(grid_);
  const auto count = std::min<std::uint64_t>(most, div_up(groups_, step_));
  const auto before = (count - 1) * step_;
  const auto last = grid_for(threads - before * whole.workgroup, whole.workgroup, limits);
  // The numbers of surplus threads must fit, too: else they would be those of others.
  if (!last || !(Size(before + count_of(last->groups)) * whole.workgroup).fits_u32()) return;
  count_ = static_cast<std::uint32_t>(count);
  last_grid_ = last->groups;
}

Piece Pieces::operator[](std::uint32_t i) const {
  const auto first = i * step_;
  const bool is_last = i + 1 == count_;
  return {static_cast<std::uint32_t>(first), is_last ? last_grid_ : grid_,
          std::min(work_, group_work_ * (is_last ? groups_ - first : step_))};
}

}  // namespace nibble
