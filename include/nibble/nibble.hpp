// Nibble's C++ API. Open a Device, load a Model on it (its weights and pipelines) and run it; a Session is one more
// user of a model. All three are handles: copies mean the same object. Every failure is a value; nothing here throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nibble/options.hpp"
#include "nibble/types.hpp"
#include "nibble/values.hpp"

namespace nibble {

struct DeviceImpl;
struct ModelImpl;
struct SessionImpl;
struct OwnSession;
class Session;
/// The library's own way to what stands behind the classes below.
struct Internals;

/// What an adapter is and can do.
struct DeviceInfo {
  std::size_t index = 0;
  std::string name;
  std::string kind;     ///< "discrete", "integrated", "cpu" or "unknown"
  std::string backend;  ///< "vulkan", "metal", …
  std::string driver;
  std::uint64_t max_buffer_size = 0;
  std::uint64_t max_storage_binding_size = 0;
  std::uint32_t max_workgroup_invocations = 0;
  bool shader_f16 = false;
  bool subgroups = false;
  bool timestamp_query = false;
  std::string profile_json;  ///< the whole profile, as `nibble inspect --device-profile` reads it
};

/// Where wgpu-native lies, if not where Nibble looks by itself. Before the first device.
NIBBLE_API void set_wgpu_library(std::string path);

/// All adapters that can run programs. An empty list is no error.
NIBBLE_API Result<std::vector<DeviceInfo>> devices();

class NIBBLE_API Device {
 public:
  // A handle that was moved from would have nothing behind it: there are only copies.
  Device(const Device&) = default;
  Device& operator=(const Device&) = default;

  /// `selector`: empty for $NIBBLE_DEVICE or the best adapter, else an index, a kind ("cpu", "discrete",
  /// "integrated") or a part of a name.
  static Result<Device> open(std::string_view selector = {});
  const DeviceInfo& info() const;
  /// The latched error once the device is lost.
  std::optional<Error> lost() const;
  /// Number of live GPU objects that wgpu knows of in this process, but for the device's own compiled pipelines; for
  /// leak checks.
  std::size_t live_objects() const;
  /// How many different pipelines were compiled on this device so far: each is compiled once.
  std::size_t compiled_pipelines() const;

 private:
  friend struct Internals;
  Device() = default;
  std::shared_ptr<DeviceImpl> impl_;
};

struct LoadOptions : Options {
  /// Bytes of weights uploaded so far, and in all.
  std::function<void(std::uint64_t done, std::uint64_t total)> on_progress = {};
};

class NIBBLE_API Model {
 public:
  Model(const Model&) = default;
  Model& operator=(const Model&) = default;

  /// Maps the file, checks it, uploads its weights and compiles its kernels.
  static Result<Model> load(const Device& device, const std::string& path, const LoadOptions& options = {});
  const std::vector<TensorInfo>& inputs() const;
  const std::vector<TensorInfo>& outputs() const;
  const std::vector<ConstantMethod>& constant_methods() const;

  /// Runs the program in the model's own session: see Session::run(). Calls from several threads take turns.
  Result<std::vector<HostArray>> run(std::span<const HostTensor> inputs) const;
  /// A further session, with state of its own as it is in the program.
  Result<Session> session() const;

 private:
  friend struct Internals;
  Model() = default;
  std::shared_ptr<const ModelImpl> impl_;
  std::shared_ptr<OwnSession> own_;
};

/// One user's state: mutable buffers, intermediates, staging. One call at a time; different sessions may be used
/// from different threads.
class NIBBLE_API Session {
 public:
  Session(const Session&) = default;
  Session& operator=(const Session&) = default;

  /// Runs the program and gives its outputs, in new memory.
  Result<std::vector<HostArray>> run(std::span<const HostTensor> inputs);

  // The same in steps, for outputs in memory of the caller's.
  /// Takes the inputs: checks and converts them, and works out what the call will do. The data is not needed after.
  Status set_inputs(std::span<const HostTensor> inputs);
  /// The live shape of an output, after set_inputs(); that of a scalar where there is no such output.
  Shape output_shape(std::size_t output) const;
  /// The value of an integer output, after set_inputs(); 0 where there is no such output.
  std::int64_t output_int(std::size_t output) const;
  /// Runs the program on the inputs last set, once: set them again for the next call. `outputs` has one entry per
  /// output; an entry without data is skipped. An integer output is written as int64.
  Status execute(std::span<const HostOutput> outputs);
  /// As execute(), one pass per dispatch, and tells what each took.
  Result<std::vector<DispatchTime>> profile(std::span<const HostOutput> outputs);
  /// What the session keeps from call to call.
  std::vector<StateInfo> states() const;

 private:
  friend struct Internals;
  Session() = default;
  std::shared_ptr<SessionImpl> impl_;
};

/// Nibble's version, "0.1.0".
NIBBLE_API std::string_view version() noexcept;

}  // namespace nibble
