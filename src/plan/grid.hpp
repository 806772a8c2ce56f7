// Grid math: clamps the workgroup size to the device, folds large grids into two or three dimensions, and checks that
// every count fits 32 bits.
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

/// A grid of at least `threads` threads. It may have more, so kernels compare their thread's number with a count.
Result<Grid> grid_for(std::uint64_t threads, std::uint32_t preferred_workgroup, const Limits& limits);

/// The workgroup size for a kernel with this many threads. A CPU adapter hands whole workgroups to its cores, so a
/// small dispatch gets smaller workgroups: then all cores have work.
Result<std::uint32_t> workgroup_for(const Kernel& kernel, std::uint64_t threads, const DeviceProfile& profile);

/// With more threads than this, a dispatch is not small.
std::uint64_t most_small_threads(const Kernel& kernel);

}  // namespace nibble
