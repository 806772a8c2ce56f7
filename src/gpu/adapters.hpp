// Lists adapters with what they can do, and finds the one that the user means.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "gpu/handles.hpp"
#include "plan/profile.hpp"

namespace nibble::gpu {

struct Adapter {
  Engine* engine = nullptr;
  std::size_t number = 0;  ///< among its engine's
  AdapterHandle handle;
  DeviceProfile profile;
  WGPULimits limits{};                    ///< all limits of the adapter, to request a device with
  std::vector<WGPUFeatureName> features;  ///< those that Nibble uses
};

/// Every adapter of an engine that can compute, in the engine's order. OpenGL adapters only if there are no others.
std::vector<Adapter> adapters(Engine& engine);
/// Those of all engines, or of the one that is named. Engines that are not here are left out, unless all are.
Result<std::vector<Adapter>> adapters(std::string_view engine);
/// The adapter that `selector` means, and its place in adapters(engine). No more engines are loaded than are needed.
Result<std::pair<Adapter, std::size_t>> find_adapter(std::string_view engine, std::string_view selector);

/// The index of the adapter that `selector` means: an index, a kind, or a part of a name or driver (upper or lower
/// case). If it is empty, the best kind; if several match, the first.
Result<std::size_t> choose(std::span<const DeviceProfile> profiles, std::string_view selector);

}  // namespace nibble::gpu
