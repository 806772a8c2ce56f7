// An open GPU device. It keeps errors, and the compiled kernels that all models on it share.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "gpu/fair_mutex.hpp"
#include "gpu/pipelines.hpp"
#include "gpu/tracer.hpp"
#include "plan/plan.hpp"

namespace nibble::gpu {

struct Adapter;

class Device {
 public:
  /// The device that `selector` means (empty: $NIBBLE_DEVICE, then the best), on an engine (empty: $NIBBLE_ENGINE, then
  /// any). While a device is open, the same adapter gives the same device.
  static Result<std::shared_ptr<Device>> open(std::string_view selector, std::string_view engine = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  std::size_t index() const { return index_; }    ///< in the list that it was found in
  std::size_t number() const { return number_; }  ///< among its engine's adapters
  Engine& engine() const { return *engine_; }
  const Functions& call() const { return engine_->call(); }
  const DeviceProfile& profile() const { return profile_; }
  WGPUDevice handle() const { return device_.get(); }
  WGPUQueue queue() const { return queue_.get(); }

  /// The stored error, once the device is lost or an operation failed outside any call.
  std::optional<Error> lost() const;
  bool has_failed() const;  ///< whether lost() has something to say
  Status check() const;

  /// One that the host writes (MapWrite) is mapped from the beginning.
  Result<Buffer> make_buffer(std::uint64_t bytes, WGPUBufferUsage usage, std::string_view what);
  /// The compiled kernels. Not to be used in a forked process.
  Pipelines& pipelines() { return pipelines_; }
  Tracer& tracer() { return tracer_; }

  CommandEncoder make_encoder();
  CommandBuffer finish(const CommandEncoder& encoder);
  Submission submit(const CommandBuffer& commands);
  /// Makes the GPU start with what was written to buffers.
  Submission submit_writes();

  /// Waits until the GPU has finished a submission and all earlier ones.
  void wait(Submission submission) const;
  /// How often somebody did.
  std::uint64_t waits() const { return waits_; }

  /// Destroys the device while it is in use, like a driver reset. For tests.
  void destroy_for_test();

 private:
  friend class ErrorScope;

  Device() = default;
  static Result<std::shared_ptr<Device>> open_adapter(Adapter& adapter, std::size_t index);
  static void on_error(WGPUDevice const* device, WGPUErrorType type, WGPUStringView message, void* self, void*);
  static void on_lost(WGPUDevice const* device, WGPUDeviceLostReason reason, WGPUStringView message, void* self, void*);

  std::size_t index_ = 0;
  std::size_t number_ = 0;
  Engine* engine_ = nullptr;
  DeviceProfile profile_;
  DeviceHandle device_;
  Queue queue_;
  mutable std::atomic<std::uint64_t> waits_ = 0;

  /// Held during encoding and submission and while buffers are made, but not while kernels are compiled or results are
  /// waited for.
  mutable FairMutex mutex_;
  Pipelines pipelines_{*this};
  Tracer tracer_;

  /// Protects what the callbacks write. They run on any thread that is in the engine, even while mutex_ is held.
  mutable std::mutex latch_mutex_;
  std::optional<Error> latched_;
};

/// While it lives, errors of what this thread does are its own; usually with the device's lock. Cannot be nested.
class ErrorScope {
 public:
  enum class Catch : std::uint8_t { validation, everything };
  enum class Lock : std::uint8_t { device, none };

  ErrorScope(Device& device, Catch what, Lock lock = Lock::device);
  ~ErrorScope();
  ErrorScope(const ErrorScope&) = delete;
  ErrorScope& operator=(const ErrorScope&) = delete;

  /// Ends the scopes and returns their error. Submit an encoded command buffer only if there is none, because
  /// wgpu-native aborts on an invalid one. The lock is still held.
  Status close(std::string_view what);
  /// Returns the error that came after close(), if any.
  Status settle(std::string_view what);

 private:
  friend class Device;

  struct Failure {
    WGPUErrorType type = WGPUErrorType_NoError;
    std::string message;
  };

  Status take(std::string_view what);
  void pop();
  /// An error may have cost the device, although nobody said so.
  void look_for_loss();

  Device& device_;
  std::unique_lock<FairMutex> lock_;
  std::size_t scopes_ = 0;
  Failure failure_;
};

}  // namespace nibble::gpu
