// An open GPU device: errors that never vanish, and the pipelines that all models on it share.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gpu/wgpu.hpp"
#include "plan/plan.hpp"

namespace nibble::gpu {

/// Binding 0 is the uniform block of parameters, the rest are storage buffers: a layout is told by their accesses.
struct BindLayout {
  BindGroupLayout group;
  PipelineLayout pipeline;
};

/// A compiled kernel. It keeps what it was made of alive, so that other variants find it in the device's cache.
struct Pipeline {
  std::shared_ptr<const BindLayout> layout;
  std::shared_ptr<const ShaderModule> module;
  ComputePipeline handle;
};

struct Adapter;

class Device {
 public:
  /// The device that `selector` means (empty: $NIBBLE_DEVICE, then the best). Whoever asks for the same adapter while
  /// it is open gets the same device.
  static Result<std::shared_ptr<Device>> open(std::string_view selector);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  std::size_t index() const { return index_; }  ///< among adapters()
  const DeviceProfile& profile() const { return profile_; }
  WGPUDevice handle() const { return device_.get(); }
  WGPUQueue queue() const { return queue_.get(); }

  /// The latched error, once the device is lost or something failed that no call waited for.
  std::optional<Error> lost() const;
  Status check() const;

  Result<Buffer> make_buffer(std::uint64_t bytes, WGPUBufferUsage usage, std::string_view what);
  Result<std::shared_ptr<const Pipeline>> pipeline(const PipelineDesc& desc);
  /// How many different pipelines were compiled on it so far.
  std::size_t compiled_pipelines() const;
  /// GPU objects that these pipelines are made of.
  std::size_t kept_objects() const;

  /// Waits until the GPU has done submission `index`, and all before it.
  void wait(WGPUSubmissionIndex index) const;

  /// Destroys the device under its users, as a driver's reset would; for tests.
  void destroy_for_test();

 private:
  friend class ErrorScope;

  struct Failure {
    WGPUErrorType type = WGPUErrorType_NoError;
    std::string message;
  };

  Device() = default;
  static Result<std::shared_ptr<Device>> open_adapter(Adapter& adapter, std::size_t index);
  static void on_error(WGPUDevice const* device, WGPUErrorType type, WGPUStringView message, void* self, void*);
  static void on_lost(WGPUDevice const* device, WGPUDeviceLostReason reason, WGPUStringView message, void* self, void*);

  std::shared_ptr<const BindLayout> bind_layout(std::span<const Access> bindings);
  std::shared_ptr<const ShaderModule> shader_module(const PipelineDesc& desc);

  std::size_t index_ = 0;
  DeviceProfile profile_;
  DeviceHandle device_;
  Queue queue_;

  /// Covers error scopes, encoding and submission; the wait for results is outside.
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const BindLayout>> layouts_;
  std::map<std::string, std::weak_ptr<const ShaderModule>> modules_;
  /// Kept as long as the device, so that a program that is loaded again compiles nothing.
  std::map<std::string, std::shared_ptr<const Pipeline>> pipelines_;

  /// What the callbacks write. They come from any thread that is in wgpu, also while mutex_ is held.
  mutable std::mutex latch_mutex_;
  std::optional<Error> latched_;
  std::thread::id scope_owner_;
  Failure scope_failure_;
};

/// A stretch of WebGPU calls under the device's lock and inside error scopes. Not nested.
class ErrorScope {
 public:
  enum class Catch : std::uint8_t { validation, everything };

  ErrorScope(Device& device, Catch what);
  ~ErrorScope();
  ErrorScope(const ErrorScope&) = delete;
  ErrorScope& operator=(const ErrorScope&) = delete;

  /// Ends the scopes and tells what went wrong in them. What was encoded may only be submitted if nothing did:
  /// wgpu-native aborts on an invalid command buffer. The lock is still held.
  Status close(std::string_view what);
  /// Tells what went wrong since close().
  Status settle(std::string_view what);

 private:
  Status take(std::string_view what);
  void pop();

  Device& device_;
  std::unique_lock<std::mutex> lock_;
  std::size_t scopes_ = 0;
};

/// Objects that wgpu keeps for this process, whoever made them.
std::size_t live_objects();

}  // namespace nibble::gpu
