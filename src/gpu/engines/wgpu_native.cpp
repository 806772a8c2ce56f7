// wgpu-native. It aborts the process where a driver fails while it works: see SECURITY.md.
#include <algorithm>

#include "gpu/engines/engine.hpp"

namespace nibble::gpu {
namespace {

/// Structs of webgpu.h change between major versions, so no other version can be used.
constexpr std::uint32_t kMajorVersion = 29;

/// Functions that only wgpu-native has.
#define NIBBLE_WGPU_EXTRAS(X)        \
  X(DeviceCreateShaderModuleTrusted) \
  X(DevicePoll)                      \
  X(GenerateReport)                  \
  X(GetVersion)                      \
  X(InstanceEnumerateAdapters)       \
  X(QueueGetTimestampPeriod)         \
  X(QueueSubmitForIndex)             \
  X(SetLogCallback)                  \
  X(SetLogLevel)

struct WgpuExtras {
#define NIBBLE_WGPU_EXTRA(name) decltype(&wgpu##name) name = nullptr;
  NIBBLE_WGPU_EXTRAS(NIBBLE_WGPU_EXTRA)
#undef NIBBLE_WGPU_EXTRA
};

void on_wgpu_log(WGPULogLevel level, WGPUStringView message, void* log) {
  if (level == WGPULogLevel_Error) static_cast<Log*>(log)->set(view(message));
}

class WgpuNative final : public Engine {
 public:
  WgpuNative(const Functions& functions, const WgpuExtras& extras) : Engine(functions), extras_(extras) {}

  Status start(std::string_view where) {
    extras_.SetLogCallback(on_wgpu_log, &log_);
    extras_.SetLogLevel(WGPULogLevel_Error);
    // Looking for OpenGL is slow and noisy (EGL writes to stderr), so do it only if there is no other adapter.
    if (!take_native()) instance_ = make_instance(WGPUInstanceBackend_GL);
    if (instance_ == nullptr) return fail(ErrorCode::gpu, "wgpu-native at {} could not make an instance", where);
    return {};
  }

  std::string_view name() const override { return "wgpu"; }

  std::vector<WGPUAdapter> adapters() override {
    const std::lock_guard guard(mutex_);
    // A driver may have failed for a moment, when OpenGL was taken.
    if (!is_native_) take_native();
    std::vector<WGPUAdapter> all(extras_.InstanceEnumerateAdapters(instance_, nullptr, nullptr));
    if (!all.empty())
      all.resize(std::min(all.size(), extras_.InstanceEnumerateAdapters(instance_, nullptr, all.data())));
    return all;
  }

  WGPUFeatureName subgroups() const override { return static_cast<WGPUFeatureName>(WGPUNativeFeature_Subgroup); }
  bool subgroups_need_enable() const override { return false; }
  WGPUFeatureName mapped_storage() const override {
    return static_cast<WGPUFeatureName>(WGPUNativeFeature_MappablePrimaryBuffers);
  }

  bool has_unchecked_modules() const override { return true; }
  WGPUShaderModule make_module(WGPUDevice device, const WGPUShaderModuleDescriptor& descriptor,
                               bool unchecked) override {
    // All loops of Nibble's kernels end, so wgpu need not guard against endless ones.
    const auto checks = unchecked ? WGPUShaderRuntimeChecks_None : WGPUShaderRuntimeChecks_BoundsChecks;
    return extras_.DeviceCreateShaderModuleTrusted(device, &descriptor, checks);
  }

  bool has_scopes_per_thread() const override { return false; }

  WGPUComputePipeline make_pipeline(WGPUDevice device, const WGPUComputePipelineDescriptor& descriptor,
                                    std::string& /*why*/) override {
    return call().DeviceCreateComputePipeline(device, &descriptor);
  }

  Submission submit(WGPUQueue queue, std::span<const WGPUCommandBuffer> commands) override {
    return extras_.QueueSubmitForIndex(queue, commands.size(), commands.data());
  }

  void wait(WGPUDevice device, Submission submission) override { extras_.DevicePoll(device, 1, &submission); }
  void run_callbacks(WGPUDevice device) override { extras_.DevicePoll(device, 0, nullptr); }
  void finish(WGPUDevice device) override { extras_.DevicePoll(device, 1, nullptr); }
  double timestamp_period(WGPUQueue queue) override { return extras_.QueueGetTimestampPeriod(queue); }

  std::size_t live_objects() override {
    WGPUGlobalReport report{};
    const std::lock_guard guard(mutex_);
    extras_.GenerateReport(instance_, &report);
    const auto& hub = report.hub;
    std::size_t sum = 0;
    for (const auto* kind :
         {&hub.adapters, &hub.devices, &hub.queues, &hub.pipelineLayouts, &hub.shaderModules, &hub.bindGroupLayouts,
          &hub.bindGroups, &hub.commandBuffers, &hub.computePipelines, &hub.querySets, &hub.buffers}) {
      sum += kind->numKeptFromUser;
    }
    return sum;
  }

  std::string last_log() override { return log_.get(); }

 private:
  /// Uses an instance of the system's own GPU interface, if that has an adapter.
  bool take_native() {
    auto* made = make_instance(WGPUInstanceBackend_Vulkan | WGPUInstanceBackend_Metal | WGPUInstanceBackend_DX12);
    is_native_ = made != nullptr && extras_.InstanceEnumerateAdapters(made, nullptr, nullptr) != 0;
    if (is_native_) std::swap(made, instance_);
    if (made != nullptr) call().InstanceRelease(made);
    return is_native_;
  }

  WGPUInstance make_instance(WGPUInstanceBackend backends) {
    WGPUInstanceExtras extras{};
    extras.chain.sType = static_cast<WGPUSType>(WGPUSType_InstanceExtras);
    extras.backends = backends;
    WGPUInstanceDescriptor descriptor{};
    descriptor.nextInChain = &extras.chain;
    return call().CreateInstance(&descriptor);
  }

  WgpuExtras extras_;
  std::mutex mutex_;        ///< protects what follows
  bool is_native_ = false;  ///< not OpenGL
  WGPUInstance instance_ = nullptr;
  Log log_;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_wgpu_native(FindFunction find, void* from, std::string_view where) {
  TRY_ASSIGN(const auto functions, take_functions(find, from, where));
  WgpuExtras extras;
#define NIBBLE_WGPU_TAKE(name) TRY(take_function(find, from, where, "wgpu" #name, extras.name));
  NIBBLE_WGPU_EXTRAS(NIBBLE_WGPU_TAKE)
#undef NIBBLE_WGPU_TAKE
  if (auto version = extras.GetVersion(); version >> 24 != kMajorVersion) {
    return fail(ErrorCode::gpu, "{} is wgpu-native {}.{}, but Nibble needs version {}", where, version >> 24,
                version >> 16 & 0xff, kMajorVersion);
  }
  auto engine = std::make_unique<WgpuNative>(functions, extras);
  TRY(engine->start(where));
  return engine;
}

}  // namespace nibble::gpu
