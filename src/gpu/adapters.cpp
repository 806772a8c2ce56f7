#include "gpu/adapters.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <optional>

#include "gpu/engines/engines.hpp"

namespace nibble::gpu {
namespace {

AdapterKind kind_of(WGPUAdapterType type) {
  switch (type) {
    case WGPUAdapterType_DiscreteGPU: return AdapterKind::discrete;
    case WGPUAdapterType_IntegratedGPU: return AdapterKind::integrated;
    case WGPUAdapterType_CPU: return AdapterKind::cpu;
    default: return AdapterKind::unknown;
  }
}

std::string_view backend_name(WGPUBackendType type) {
  switch (type) {
    case WGPUBackendType_Vulkan: return "vulkan";
    case WGPUBackendType_Metal: return "metal";
    case WGPUBackendType_D3D12: return "d3d12";
    case WGPUBackendType_OpenGL:
    case WGPUBackendType_OpenGLES: return "opengl";
    default: return "unknown";
  }
}

Limits limits_of(const WGPULimits& from) {
  Limits to;
  // lavapipe reports 2^31 - 1, but sizes of buffers and copies must be multiples of 4.
  to.max_buffer_size = from.maxBufferSize / 4 * 4;
  to.max_storage_binding_size = from.maxStorageBufferBindingSize / 4 * 4;
  to.max_workgroups_per_dimension = from.maxComputeWorkgroupsPerDimension;
  to.max_workgroup_invocations = from.maxComputeInvocationsPerWorkgroup;
  to.max_workgroup_size_x = from.maxComputeWorkgroupSizeX;
  to.max_workgroup_bytes = from.maxComputeWorkgroupStorageSize;
  return to;
}

bool has_one_memory(AdapterKind kind) { return kind == AdapterKind::cpu || kind == AdapterKind::integrated; }

void read_features(Adapter& adapter) {
  Engine& engine = *adapter.engine;
  const auto wanted = engine.wanted_features();
  WGPUSupportedFeatures features{};
  engine.call().AdapterGetFeatures(adapter.handle.get(), &features);
  for (const auto feature : std::span(features.features, features.featureCount)) {
    if (feature == WGPUFeatureName_ShaderF16) {
      adapter.profile.shader_f16 = true;
    } else if (feature == WGPUFeatureName_TimestampQuery) {
      adapter.profile.timestamp_query = true;
    } else if (feature == engine.subgroups()) {
      adapter.profile.subgroups = true;
    } else if (feature == engine.mapped_storage() && has_one_memory(adapter.profile.kind)) {
      adapter.profile.mapped_storage = true;
    } else if (std::ranges::find(wanted, feature) == wanted.end()) {
      continue;
    }
    adapter.features.push_back(feature);
  }
  engine.call().SupportedFeaturesFreeMembers(features);
}

void add(Engine& engine, WGPUAdapter handle, std::vector<Adapter>& out) {
  Adapter adapter;
  adapter.engine = &engine;
  adapter.number = out.size();
  adapter.handle = AdapterHandle(engine, handle);
  if (engine.call().AdapterGetLimits(handle, &adapter.limits) != WGPUStatus_Success) return;
  if (adapter.limits.maxComputeInvocationsPerWorkgroup == 0) return;
  WGPUAdapterInfo info{};
  if (engine.call().AdapterGetInfo(handle, &info) != WGPUStatus_Success) return;
  DeviceProfile& profile = adapter.profile;
  profile.engine = engine.name();
  profile.name = view(info.device);
  profile.driver = view(info.description);
  profile.backend = backend_name(info.backendType);
  profile.kind = kind_of(info.adapterType);
  profile.limits = limits_of(adapter.limits);
  profile.subgroups_need_enable = engine.subgroups_need_enable();
  read_features(adapter);
  profile.unchecked_kernels = engine.has_unchecked_modules();
  profile.packed_dot = true;  // naga and Tint have it on every backend
  if (profile.subgroups) {
    profile.subgroup_min = info.subgroupMinSize;
    profile.subgroup_max = info.subgroupMaxSize;
  }
  engine.call().AdapterInfoFreeMembers(info);
  out.push_back(std::move(adapter));
}

/// Software adapters come last, because many machines have one beside their GPU.
int rank_of(AdapterKind kind) {
  switch (kind) {
    case AdapterKind::discrete: return 0;
    case AdapterKind::integrated: return 1;
    case AdapterKind::unknown: return 2;
    case AdapterKind::cpu: return 3;
  }
  return 4;
}

/// Calls `use` for the engine that is named, or for each that is here, until it says that it has what it wants.
template <class Use>
Status each_engine(std::string_view given, Use&& use) {
  TRY(enter_process());
  TRY_ASSIGN(const auto name, chosen_engine(given));
  Status missing;
  bool is_any_here = false;
  for (const auto& one : engine_names()) {
    if (!name.empty() && one != name) continue;
    auto loaded = engine(one);
    if (!loaded) {
      missing = std::unexpected(std::move(loaded).error());
      continue;
    }
    is_any_here = true;
    const bool is_enough = use(**loaded);
    exit_before_drivers();
    if (is_enough) break;
  }
  return is_any_here ? Status() : missing;
}

/// What the engines that were asked say of why there is no adapter.
std::string last_logs() {
  std::string text;
  for (auto* one : loaded_engines()) {
    const auto log = one->last_log();
    if (!log.empty()) text += fmt::format("{}{} says: {}", text.empty() ? "; " : ", ", one->name(), one_line(log));
  }
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

/// The place that a selector names, if it is a number.
std::optional<std::size_t> place_in(std::string_view selector) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(selector.data(), selector.data() + selector.size(), index);
  if (error != std::errc() || end != selector.data() + selector.size()) return {};
  return index;
}

std::string list(std::span<const DeviceProfile> profiles) {
  std::string out;
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    const auto& p = profiles[i];
    out += fmt::format("{}{}: {} ({}, {})", i == 0 ? "" : ", ", i, p.name, to_string(p.kind), p.engine);
  }
  return out;
}

}  // namespace

std::vector<Adapter> adapters(Engine& engine) {
  std::vector<Adapter> out;
  for (auto* handle : engine.adapters()) add(engine, handle, out);
  return out;
}

Result<std::vector<Adapter>> adapters(std::string_view engine) {
  std::vector<Adapter> all;
  TRY(each_engine(engine, [&](Engine& one) {
    std::ranges::move(adapters(one), std::back_inserter(all));
    return false;
  }));
  return all;
}

Result<std::pair<Adapter, std::size_t>> find_adapter(std::string_view engine, std::string_view selector) {
  std::vector<Adapter> all;
  std::vector<DeviceProfile> profiles;
  Result<std::size_t> place = 0;
  TRY(each_engine(engine, [&](Engine& one) {
    for (auto& adapter : adapters(one)) {
      profiles.push_back(adapter.profile);
      all.push_back(std::move(adapter));
    }
    place = choose(profiles, selector);
    // A place in the list of all adapters may belong to the next engine.
    if (const auto wanted = place_in(selector)) return *wanted < profiles.size();
    // A GPU that another engine alone can use is better than none.
    return place && (!selector.empty() || profiles[*place].kind != AdapterKind::cpu);
  }));
  TRY(place);
  return std::pair(std::move(all[*place]), *place);
}

Result<std::size_t> choose(std::span<const DeviceProfile> profiles, std::string_view selector) {
  if (profiles.empty()) {
    return fail(ErrorCode::unsupported, "no GPU adapter was found; a Vulkan driver is needed{}", last_logs());
  }
  if (selector.empty()) {
    auto best = std::ranges::min_element(profiles, {}, [](const DeviceProfile& p) { return rank_of(p.kind); });
    return static_cast<std::size_t>(best - profiles.begin());
  }
  if (const auto index = place_in(selector); index && *index < profiles.size()) return *index;
  const auto wanted = lower(selector);
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    if (to_string(profiles[i].kind) == wanted) return i;
  }
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    if (lower(profiles[i].name).contains(wanted) || lower(profiles[i].driver).contains(wanted)) return i;
  }
  return fail(ErrorCode::invalid_argument, "no device matches \"{}\"; there are: {}", selector, list(profiles));
}

}  // namespace nibble::gpu
