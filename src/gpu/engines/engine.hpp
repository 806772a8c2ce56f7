// A WebGPU implementation in this process: its functions, and what it does in its own way. There are two, wgpu-native
// and Dawn. They are loaded when they are first needed, not linked, so `nibble --help` and the planner need neither.
#pragma once

#include <wgpu.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/guarded.hpp"
#include "graph/status.hpp"

namespace nibble::gpu {

/// The functions of webgpu.h that Nibble calls on every engine. Those that wgpu-native leaves unimplemented abort the
/// process: none of them may be added here (InstanceWaitAny, BufferGetMapState, DeviceGetLostFuture, …).
#define NIBBLE_WEBGPU_FUNCTIONS(X)        \
  X(AdapterGetFeatures)                   \
  X(AdapterGetInfo)                       \
  X(AdapterGetLimits)                     \
  X(AdapterInfoFreeMembers)               \
  X(AdapterRelease)                       \
  X(AdapterRequestDevice)                 \
  X(BindGroupLayoutRelease)               \
  X(BindGroupRelease)                     \
  X(BufferGetConstMappedRange)            \
  X(BufferGetMappedRange)                 \
  X(BufferMapAsync)                       \
  X(BufferRelease)                        \
  X(BufferUnmap)                          \
  X(CommandBufferRelease)                 \
  X(CommandEncoderBeginComputePass)       \
  X(CommandEncoderClearBuffer)            \
  X(CommandEncoderCopyBufferToBuffer)     \
  X(CommandEncoderFinish)                 \
  X(CommandEncoderRelease)                \
  X(CommandEncoderResolveQuerySet)        \
  X(ComputePassEncoderDispatchWorkgroups) \
  X(ComputePassEncoderEnd)                \
  X(ComputePassEncoderRelease)            \
  X(ComputePassEncoderSetBindGroup)       \
  X(ComputePassEncoderSetPipeline)        \
  X(ComputePipelineRelease)               \
  X(CreateInstance)                       \
  X(DeviceCreateBindGroup)                \
  X(DeviceCreateBindGroupLayout)          \
  X(DeviceCreateBuffer)                   \
  X(DeviceCreateCommandEncoder)           \
  X(DeviceCreateComputePipeline)          \
  X(DeviceCreatePipelineLayout)           \
  X(DeviceCreateQuerySet)                 \
  X(DeviceDestroy)                        \
  X(DeviceGetQueue)                       \
  X(DevicePopErrorScope)                  \
  X(DevicePushErrorScope)                 \
  X(DeviceRelease)                        \
  X(InstanceRelease)                      \
  X(PipelineLayoutRelease)                \
  X(QuerySetRelease)                      \
  X(QueueRelease)                         \
  X(QueueWriteBuffer)                     \
  X(ShaderModuleRelease)                  \
  X(SupportedFeaturesFreeMembers)

struct Functions {
#define NIBBLE_WEBGPU_MEMBER(name) WGPUProc##name name = nullptr;
  NIBBLE_WEBGPU_FUNCTIONS(NIBBLE_WEBGPU_MEMBER)
#undef NIBBLE_WEBGPU_MEMBER
};

/// Something that was submitted, in the engine's own numbers.
using Submission = std::uint64_t;

/// The last line that an engine logged. Its callback may come on any thread.
class Log {
 public:
  void set(std::string_view line) {
    const std::lock_guard guard(mutex_);
    // An engine does not expect an exception.
    last_ = guarded([&] { return std::string(line); }, [] { return no_memory().message; });
  }
  std::string get() {
    const std::lock_guard guard(mutex_);
    return last_;
  }

 private:
  std::mutex mutex_;
  std::string last_;
};

class Engine {
 public:
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  virtual std::string_view name() const = 0;
  const Functions& call() const { return functions_; }

  /// References that the caller owns.
  virtual std::vector<WGPUAdapter> adapters() = 0;
  /// The number of the feature "subgroups".
  virtual WGPUFeatureName subgroups() const = 0;
  /// Whether WGSL here has to say `enable subgroups;`, or must not.
  virtual bool subgroups_need_enable() const = 0;
  /// The number of the feature with which the host can map buffers that kernels use, or 0.
  virtual WGPUFeatureName mapped_storage() const = 0;
  /// Further features that a device is opened with, if the adapter has them.
  virtual std::span<const WGPUFeatureName> wanted_features() const { return {}; }
  /// What else a device is opened with, if anything.
  virtual WGPUChainedStruct* device_extras() { return nullptr; }

  /// Whether error scopes are of the thread that pushes them. Otherwise there are none: errors come to the callback, on
  /// the thread that made them.
  virtual bool has_scopes_per_thread() const = 0;

  /// Whether it can leave out the bounds checks of single modules.
  virtual bool has_unchecked_modules() const { return false; }
  virtual WGPUShaderModule make_module(WGPUDevice device, const WGPUShaderModuleDescriptor& descriptor,
                                       bool unchecked) = 0;
  /// Compiles a kernel while others use the device. An error is in `why`, or comes as others do.
  virtual WGPUComputePipeline make_pipeline(WGPUDevice device, const WGPUComputePipelineDescriptor& descriptor,
                                            std::string& why) = 0;
  virtual Submission submit(WGPUQueue queue, std::span<const WGPUCommandBuffer> commands) = 0;
  /// Waits until the GPU has finished a submission and all earlier ones, or the device is lost.
  virtual void wait(WGPUDevice device, Submission submission) = 0;
  /// Runs the callbacks of what has ended.
  virtual void run_callbacks(WGPUDevice device) = 0;
  /// Frees the memory of buffers that were released, where the engine does so later.
  virtual void give_back(WGPUQueue /*queue*/) {}
  /// Waits for all that a device does, before it is released.
  virtual void finish(WGPUDevice device) = 0;
  /// Nanoseconds in a tick of timestamps.
  virtual double timestamp_period(WGPUQueue queue) = 0;
  /// How many objects there are in this process.
  virtual std::size_t live_objects() { return handles_; }
  /// By handles: one more, or one less.
  void count(int change) { handles_ += static_cast<std::size_t>(change); }
  /// The last error that it logged, or "". It often says why there is no adapter.
  virtual std::string last_log() { return {}; }

 protected:
  explicit Engine(const Functions& functions) : functions_(functions) {}

 private:
  Functions functions_;
  std::atomic<std::size_t> handles_ = 0;
};

/// How functions are found by name; null if there is none.
using FindFunction = void* (*)(void* from, const char* name);

/// Takes a function of a library. An error names it.
template <class Function>
Status take_function(FindFunction find, void* from, std::string_view where, const char* name, Function& to) {
  to = reinterpret_cast<Function>(find(from, name));
  if (to == nullptr)
    return fail(ErrorCode::gpu, "{} is no WebGPU library that Nibble can use: it has no {}", where, name);
  return {};
}

Result<Functions> take_functions(FindFunction find, void* from, std::string_view where);

/// Each in its file.
Result<std::unique_ptr<Engine>> make_wgpu_native(FindFunction find, void* from, std::string_view where);
/// `is_known`: it is the one in the wheel that Nibble names.
Result<std::unique_ptr<Engine>> make_dawn(FindFunction find, void* from, std::string_view where, bool is_known);

inline WGPUStringView view(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view view(WGPUStringView text) {
  if (text.data == nullptr) return {};
  return text.length == WGPU_STRLEN ? std::string_view(text.data) : std::string_view(text.data, text.length);
}

/// Messages of engines have several lines; ours have one.
std::string one_line(std::string_view text);

/// For callbacks, which others call who do not expect an exception: without memory, the text is a short one.
template <class Make>
std::string text_of(const Make& make) noexcept {
  return guarded(make, [] { return no_memory().message; });
}

}  // namespace nibble::gpu
