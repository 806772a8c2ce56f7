#include "gpu/adapters.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

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
  return to;
}

void read_features(WGPUAdapter handle, Adapter& adapter) {
  WGPUSupportedFeatures features{};
  wgpu().AdapterGetFeatures(handle, &features);
  for (std::size_t i = 0; i < features.featureCount; ++i) {
    // wgpu-native has its own number for subgroups, which is not in the enum.
    switch (static_cast<std::uint32_t>(features.features[i])) {
      case WGPUFeatureName_ShaderF16: adapter.profile.shader_f16 = true; break;
      case WGPUFeatureName_TimestampQuery: adapter.profile.timestamp_query = true; break;
      case WGPUFeatureName_Subgroups:
      case WGPUNativeFeature_Subgroup: adapter.profile.subgroups = true; break;
      default: continue;
    }
    adapter.features.push_back(features.features[i]);
  }
  wgpu().SupportedFeaturesFreeMembers(features);
}

void add(AdapterHandle handle, std::vector<Adapter>& out) {
  Adapter adapter;
  if (wgpu().AdapterGetLimits(handle.get(), &adapter.limits) != WGPUStatus_Success) return;
  if (adapter.limits.maxComputeInvocationsPerWorkgroup == 0) return;
  WGPUAdapterInfo info{};
  if (wgpu().AdapterGetInfo(handle.get(), &info) != WGPUStatus_Success) return;
  DeviceProfile& profile = adapter.profile;
  profile.name = view(info.device);
  profile.driver = view(info.description);
  profile.backend = backend_name(info.backendType);
  profile.kind = kind_of(info.adapterType);
  profile.limits = limits_of(adapter.limits);
  read_features(handle.get(), adapter);
  profile.packed_dot = true;  // naga and Tint have it on every backend
  if (profile.subgroups) profile.subgroup_max = info.subgroupMaxSize;
  wgpu().AdapterInfoFreeMembers(info);
  adapter.handle = std::move(handle);
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

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string list(std::span<const DeviceProfile> profiles) {
  std::string out;
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    out += fmt::format("{}{}: {} ({})", i == 0 ? "" : ", ", i, profiles[i].name, to_string(profiles[i].kind));
  }
  return out;
}

}  // namespace

Result<std::vector<Adapter>> adapters() {
  TRY(load_wgpu());
  std::vector<WGPUAdapter> raw(wgpu().InstanceEnumerateAdapters(instance(), nullptr, nullptr));
  if (!raw.empty()) raw.resize(std::min(raw.size(), wgpu().InstanceEnumerateAdapters(instance(), nullptr, raw.data())));
  std::vector<Adapter> out;
  for (auto handle : raw) add(AdapterHandle(handle), out);
  return out;
}

Result<std::size_t> choose(std::span<const DeviceProfile> profiles, std::string_view selector) {
  if (profiles.empty()) {
    auto log = last_log();
    return fail(ErrorCode::unsupported, "no GPU adapter was found; a Vulkan driver is needed{}{}",
                log.empty() ? "" : ", and wgpu says: ", log);
  }
  if (selector.empty()) {
    auto best = std::ranges::min_element(profiles, {}, [](const DeviceProfile& p) { return rank_of(p.kind); });
    return static_cast<std::size_t>(best - profiles.begin());
  }
  std::size_t index = 0;
  auto [end, error] = std::from_chars(selector.data(), selector.data() + selector.size(), index);
  if (error == std::errc() && end == selector.data() + selector.size() && index < profiles.size()) return index;
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
