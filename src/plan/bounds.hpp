// Engines check every index of a kernel, so that one that is wrong touches no memory of others. Where the planner knows
// that none is wrong, they need not: a choice of its own, which there is with the option `unchecked`.
#pragma once

#include "plan/kernel.hpp"
#include "plan/variant.hpp"

namespace nibble {

/// Unchecked or checked; the first is right for kernels that fit.
extern const Choice kBounds;
inline constexpr std::uint32_t kFits = 1;

/// Whether it may be unchecked where it fits. What reports faults goes by data.
bool is_proven(const Kernel& kernel);

}  // namespace nibble
