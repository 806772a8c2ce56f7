// Which adapters there are, what they can do, and which one the user means.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "gpu/wgpu.hpp"
#include "plan/profile.hpp"

namespace nibble::gpu {

struct Adapter {
  AdapterHandle handle;
  DeviceProfile profile;
  WGPULimits limits{};                    ///< all that the adapter has, as a device asks for them
  std::vector<WGPUFeatureName> features;  ///< those that Nibble uses
};

/// Every adapter that can compute, in wgpu's order; OpenGL's only where there is no other.
Result<std::vector<Adapter>> adapters();

/// Index of the adapter that `selector` means: an index, a kind, or a part of a name or driver in any case. Empty: the
/// best kind. Several matches: the first.
Result<std::size_t> choose(std::span<const DeviceProfile> profiles, std::string_view selector);

}  // namespace nibble::gpu
