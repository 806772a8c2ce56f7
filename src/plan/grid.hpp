// Grid math, in one place: workgroup size clamped to the device, folding past the limit of groups per dimension, and
// the guard that every count fits 32 bits.
#pragma once

#include "graph/status.hpp"
#include "plan/kernel.hpp"
#include "plan/profile.hpp"

namespace nibble {

struct Grid {
  std::uint32_t workgroup = 64;
  std::array<std::uint32_t, 3> groups{};
};

/// The largest allowed workgroup size that is at most `preferred`.
std::uint32_t clamp_workgroup(std::uint32_t preferred, const Limits& limits);

/// A grid of at least `threads` threads. Kernels compare their number with the count: up to one row of groups is spare.
Result<Grid> grid_for(std::uint64_t threads, std::uint32_t preferred_workgroup, const Limits& limits);

/// The workgroup size for a kernel with so many threads. A CPU adapter hands whole workgroups to its cores: a small
/// dispatch is cut finer, so that all of them get some.
Result<std::uint32_t> workgroup_for(const Kernel& kernel, std::uint64_t threads, const DeviceProfile& profile);

/// With more threads than this, a dispatch is not small.
std::uint64_t most_small_threads(const Kernel& kernel);

}  // namespace nibble
