// Dawn. It reports a driver that fails as a lost device.
#include <algorithm>
#include <array>

#include "gpu/engines/engine.hpp"

namespace nibble::gpu {
namespace {

// Numbers and structs of Dawn's own, which wgpu-native's header does not have.
constexpr auto kTogglesDescriptor = static_cast<WGPUSType>(0x0005000A);
constexpr auto kImplicitDeviceSynchronization = static_cast<WGPUFeatureName>(0x00050004);
struct Toggles {
  WGPUChainedStruct chain;
  std::size_t enabled_count;
  const char* const* enabled;
  std::size_t disabled_count;
  const char* const* disabled;
};

/// Of the Dawn in the wheel `wgpudawn`; another one may have other members.
constexpr auto kInstanceDescriptor = static_cast<WGPUSType>(0x00050006);
constexpr auto kBufferMapExtendedUsages = static_cast<WGPUFeatureName>(0x00050013);
constexpr std::uint32_t kNoValidation = 2;  // of what Dawn itself asks of the driver
struct LoggingCallbackInfo {
  WGPUChainedStruct* next;
  void (*callback)(std::uint32_t type, WGPUStringView message, void* log, void*);
  void* userdata1;
  void* userdata2;
};
struct InstanceExtras {
  WGPUChainedStruct chain;
  std::size_t path_count;
  const char* const* paths;
  void* platform;
  std::uint32_t validation_level;
  WGPUBool begin_capture;
  LoggingCallbackInfo logging;
};

void on_dawn_log(std::uint32_t /*type*/, WGPUStringView message, void* log, void* /*unused*/) {
  static_cast<Log*>(log)->set(view(message));
}

/// A wait looks up this often, in nanoseconds.
constexpr std::uint64_t kWaitSlice = 100'000'000;
/// How long memory that is given back may take: others may use the GPU, and then notice it.
constexpr std::uint64_t kGiveBackWait = 10'000'000;

/// Functions that wgpu-native does without, or would abort in.
#define NIBBLE_DAWN_EXTRAS(X)         \
  X(DeviceCreateComputePipelineAsync) \
  X(DeviceCreateShaderModule)         \
  X(InstanceProcessEvents)            \
  X(InstanceRequestAdapter)           \
  X(InstanceWaitAny)                  \
  X(QueueOnSubmittedWorkDone)         \
  X(QueueSubmit)

struct DawnExtras {
#define NIBBLE_DAWN_EXTRA(name) WGPUProc##name name = nullptr;
  NIBBLE_DAWN_EXTRAS(NIBBLE_DAWN_EXTRA)
#undef NIBBLE_DAWN_EXTRA
};

/// Two requests may find the same adapter.
struct Identity {
  std::string device;
  std::uint32_t vendor = 0;
  std::uint32_t number = 0;
  bool is_null = true;
  bool operator==(const Identity&) const = default;
};

class Dawn final : public Engine {
 public:
  Dawn(const Functions& functions, const DawnExtras& extras) : Engine(functions), extras_(extras) {}

  Status start(std::string_view where, bool is_known) {
    is_known_ = is_known;
    instance_ = make_instance();
    if (instance_ == nullptr) return fail(ErrorCode::gpu, "Dawn at {} could not make an instance", where);
    return {};
  }

  std::string_view name() const override { return "dawn"; }

  std::vector<WGPUAdapter> adapters() override {
    const std::lock_guard guard(mutex_);
    if (auto found = find_adapters(); has_adapters_ || !found.empty()) {
      has_adapters_ = true;
      return found;
    }
    // An instance remembers that it found none, but the driver may have failed for a moment.
    auto* another = make_instance();
    if (another == nullptr) return {};
    call().InstanceRelease(std::exchange(instance_, another));
    auto found = find_adapters();
    has_adapters_ = !found.empty();
    return found;
  }

  WGPUFeatureName subgroups() const override { return WGPUFeatureName_Subgroups; }
  bool subgroups_need_enable() const override { return true; }
  WGPUFeatureName mapped_storage() const override { return is_known_ ? kBufferMapExtendedUsages : WGPUFeatureName{}; }

  /// Without it, sessions on several threads would need a lock around every call, even a release.
  std::span<const WGPUFeatureName> wanted_features() const override {
    static constexpr std::array kWanted = {kImplicitDeviceSynchronization};
    return kWanted;
  }

  /// Timestamps as they are, not in steps of 0.1 ms.
  WGPUChainedStruct* device_extras() override {
    static constexpr std::array kDisabled = {"timestamp_quantization"};
    static Toggles toggles{{nullptr, kTogglesDescriptor}, 0, nullptr, kDisabled.size(), kDisabled.data()};
    return &toggles.chain;
  }

  /// Dawn can leave out bounds checks of a whole device only, and not all kernels are proven.
  WGPUShaderModule make_module(WGPUDevice device, const WGPUShaderModuleDescriptor& descriptor,
                               bool /*unchecked*/) override {
    return extras_.DeviceCreateShaderModule(device, &descriptor);
  }

  bool has_scopes_per_thread() const override { return true; }

  /// Dawn holds its own lock in other functions, so this one works on a thread of Dawn's.
  WGPUComputePipeline make_pipeline(WGPUDevice device, const WGPUComputePipelineDescriptor& descriptor,
                                    std::string& why) override {
    struct Answer {
      WGPUComputePipeline pipeline = nullptr;
      std::string& why;
    } answer{.why = why};
    WGPUCreateComputePipelineAsyncCallbackInfo info{};
    info.mode = WGPUCallbackMode_WaitAnyOnly;
    info.userdata1 = &answer;
    info.callback = [](WGPUCreatePipelineAsyncStatus status, WGPUComputePipeline pipeline, WGPUStringView message,
                       void* to, void*) {
      auto& out = *static_cast<Answer*>(to);
      if (status == WGPUCreatePipelineAsyncStatus_Success) out.pipeline = pipeline;
      out.why = text_of([&] { return one_line(view(message)); });
    };
    wait(device, extras_.DeviceCreateComputePipelineAsync(device, &descriptor, info).id);
    return answer.pipeline;
  }

  Submission submit(WGPUQueue queue, std::span<const WGPUCommandBuffer> commands) override {
    extras_.QueueSubmit(queue, commands.size(), commands.data());
    WGPUQueueWorkDoneCallbackInfo info{};
    // Nobody has to wait for it: otherwise it ends with the next callbacks.
    info.mode = WGPUCallbackMode_AllowProcessEvents;
    info.callback = [](WGPUQueueWorkDoneStatus, WGPUStringView, void*, void*) {};
    return extras_.QueueOnSubmittedWorkDone(queue, info).id;
  }

  void wait(WGPUDevice /*device*/, Submission submission) override {
    if (submission == 0) return;  // nothing was submitted, and Dawn has no such future
    WGPUFutureWaitInfo info{{submission}, 0};
    // Where a driver says in a wait that the device is lost, the wait ends as if it took too long, again and again.
    // Looking at the events is what makes Dawn take note.
    while (extras_.InstanceWaitAny(instance_, 1, &info, kWaitSlice) == WGPUWaitStatus_TimedOut)
      extras_.InstanceProcessEvents(instance_);
  }

  void run_callbacks(WGPUDevice /*device*/) override { extras_.InstanceProcessEvents(instance_); }
  /// It keeps the memory until it notices that a later submission has ended.
  void give_back(WGPUQueue queue) override {
    WGPUFutureWaitInfo info{{submit(queue, {})}, 0};
    extras_.InstanceWaitAny(instance_, 1, &info, kGiveBackWait);
    extras_.InstanceProcessEvents(instance_);
  }
  void finish(WGPUDevice /*device*/) override {}
  double timestamp_period(WGPUQueue /*queue*/) override { return 1; }
  std::string last_log() override { return log_.get(); }

 private:
  WGPUInstance make_instance() {
    const auto feature = WGPUInstanceFeatureName_TimedWaitAny;
    WGPUInstanceDescriptor descriptor{};
    // Otherwise it writes to stderr why it does not take an adapter.
    InstanceExtras extras{};
    extras.chain.sType = kInstanceDescriptor;
    extras.validation_level = kNoValidation;
    extras.logging.callback = on_dawn_log;
    extras.logging.userdata1 = &log_;
    if (is_known_) descriptor.nextInChain = &extras.chain;
    descriptor.requiredFeatureCount = 1;
    descriptor.requiredFeatures = &feature;
    return call().CreateInstance(&descriptor);
  }

  /// Dawn has no list: it is asked for each kind.
  std::vector<WGPUAdapter> find_adapters() {
    std::vector<WGPUAdapter> all;
    std::vector<Identity> known;
    for (const auto& [power, fallback] :
         {std::pair(WGPUPowerPreference_HighPerformance, false), std::pair(WGPUPowerPreference_LowPower, false),
          std::pair(WGPUPowerPreference_Undefined, true)}) {
      WGPURequestAdapterOptions options{};
      options.featureLevel = WGPUFeatureLevel_Core;
      // Otherwise it does not tell of features that it calls experimental. A device has only those it is opened with.
      static constexpr std::array kEnabled = {"allow_unsafe_apis"};
      Toggles toggles{{nullptr, kTogglesDescriptor}, kEnabled.size(), kEnabled.data(), 0, nullptr};
      if (is_known_) options.nextInChain = &toggles.chain;
      options.powerPreference = power;
      options.forceFallbackAdapter = fallback ? 1 : 0;
      auto* adapter = request(options);
      if (adapter == nullptr) continue;
      auto identity = identify(adapter);
      // Where it takes no driver, it offers one that does nothing.
      if (identity.is_null || std::ranges::find(known, identity) != known.end()) {
        call().AdapterRelease(adapter);
        continue;
      }
      known.push_back(std::move(identity));
      all.push_back(adapter);
    }
    return all;
  }

  WGPUAdapter request(const WGPURequestAdapterOptions& options) {
    WGPUAdapter found = nullptr;
    WGPURequestAdapterCallbackInfo info{};
    info.mode = WGPUCallbackMode_WaitAnyOnly;
    info.userdata1 = &found;
    info.callback = [](WGPURequestAdapterStatus status, WGPUAdapter adapter, WGPUStringView, void* to, void*) {
      if (status == WGPURequestAdapterStatus_Success) *static_cast<WGPUAdapter*>(to) = adapter;
    };
    wait(nullptr, extras_.InstanceRequestAdapter(instance_, &options, info).id);
    return found;
  }

  Identity identify(WGPUAdapter adapter) {
    WGPUAdapterInfo info{};
    if (call().AdapterGetInfo(adapter, &info) != WGPUStatus_Success) return {};
    Identity identity{std::string(view(info.device)), info.vendorID, info.deviceID,
                      info.backendType == WGPUBackendType_Null};
    call().AdapterInfoFreeMembers(info);
    return identity;
  }

  DawnExtras extras_;
  bool is_known_ = false;
  std::mutex mutex_;  ///< held while adapters are looked for
  bool has_adapters_ = false;
  WGPUInstance instance_ = nullptr;  ///< the same once it has adapters
  Log log_;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_dawn(FindFunction find, void* from, std::string_view where, bool is_known) {
  TRY_ASSIGN(const auto functions, take_functions(find, from, where));
  DawnExtras extras;
#define NIBBLE_DAWN_TAKE(name) TRY(take_function(find, from, where, "wgpu" #name, extras.name));
  NIBBLE_DAWN_EXTRAS(NIBBLE_DAWN_TAKE)
#undef NIBBLE_DAWN_TAKE
  auto engine = std::make_unique<Dawn>(functions, extras);
  TRY(engine->start(where, is_known));
  return engine;
}

}  // namespace nibble::gpu
