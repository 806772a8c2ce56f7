// Lists adapters with what they can do, and finds the one that the user means.
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
  WGPULimits limits{};                    ///< all limits of the adapter, to request a device with
  std::vector<WGPUFeatureName> features;  ///< those that Nibble uses
};

/// Every adapter that can compute, in wgpu's order. OpenGL adapters only if there are no others.
Result<std::vector<Adapter>> adapters();

/// The index of the adapter that `selector` means: an index, a kind, or a part of a name or driver (upper or lower
/// case). If it is empty, the best kind; if several match, the first.
Result<std::size_t> choose(std::span<const DeviceProfile> profiles, std::string_view selector);

}  // namespace nibble::gpu
