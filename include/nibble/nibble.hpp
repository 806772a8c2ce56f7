// Nibble's C++ API. Open a Device, load a Model on it (weights and pipelines), and run it. Each further user of a model
// needs a Session. All three are handles: a copy refers to the same object. Every failure is a value, too little memory
// as well; nothing here throws.
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
#include "nibble/trace.hpp"
#include "nibble/types.hpp"
#include "nibble/values.hpp"

namespace nibble {

struct DeviceImpl;
struct ModelImpl;
struct SessionImpl;
struct OwnSession;
class Session;
/// For the library itself: access to what the classes below point to.
struct Internals;

/// What an adapter is and can do.
struct DeviceInfo {
  std::size_t index = 0;   ///< in the list that it was found in
  std::size_t number = 0;  ///< among the adapters of its engine
  std::string engine;      ///< "dawn" or "wgpu"
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

/// Sets the path of an engine's library ("wgpu", "dawn"), instead of searching for it. Call it before the first device
/// is listed or opened.
NIBBLE_API Status set_engine_library(std::string_view engine, std::string path);
/// Hands over the functions of a Dawn that this process has, by their names in webgpu.h.
NIBBLE_API void set_dawn_functions(std::vector<std::pair<std::string, void*>> functions);
/// `provide` is called when Dawn is first needed, to hand its functions over then.
NIBBLE_API void set_dawn_provider(void (*provide)());

/// All adapters that can run programs; the list may be empty. `engine`: empty for $NIBBLE_ENGINE or all engines.
NIBBLE_API Result<std::vector<DeviceInfo>> devices(std::string_view engine = {});

class NIBBLE_API Device {
 public:
  // Handles are only copied: a moved-from handle would point to nothing.
  Device(const Device&) = default;
  Device& operator=(const Device&) = default;

  /// `selector`: empty for $NIBBLE_DEVICE or the best adapter, else an index, a kind ("cpu", "discrete",
  /// "integrated") or a part of a name. `engine`: "dawn", "wgpu", or empty for $NIBBLE_ENGINE or any.
  static Result<Device> open(std::string_view selector = {}, std::string_view engine = {});
  const DeviceInfo& info() const;
  /// The error that ended this device: it was lost, or an operation failed outside any call.
  std::optional<Error> lost() const;
  /// For leak checks: the engine's live objects in this process, without this device's cached pipelines.
  std::size_t live_objects() const;
  /// How many pipelines this device has compiled so far. One is compiled again only after it was unused for long.
  std::size_t compiled_pipelines() const;
  /// Records what loads and calls on this device do, whoever opened it, until stop_trace(). A traced call has a pass
  /// per dispatch, as in Session::profile(). Where the device has no timestamps, only the host's work is recorded.
  Status start_trace() const;
  Result<Trace> stop_trace() const;

 private:
  friend struct Internals;
  Device() = default;
  std::shared_ptr<DeviceImpl> impl_;
};

struct LoadOptions : Options {
  /// Bytes of weights uploaded so far, and in all.
  std::function<void(std::uint64_t done, std::uint64_t total)> on_progress = {};
  /// Before that, if the load measures a tuning: how many cases are done, and how many there are.
  std::function<void(std::uint64_t done, std::uint64_t total)> on_tuning = {};
};

class NIBBLE_API Model {
 public:
  Model(const Model&) = default;
  Model& operator=(const Model&) = default;

  /// Reads and checks the file, compiles its kernels and uploads its weights.
  static Result<Model> load(const Device& device, const std::string& path, const LoadOptions& options = {});
  const std::vector<TensorInfo>& inputs() const;
  const std::vector<TensorInfo>& outputs() const;
  const std::vector<ConstantMethod>& constant_methods() const;
  /// What there is to say about the load although it succeeded, such as that a tuning is for another device.
  const std::vector<std::string>& notes() const;

  /// Runs the program in the model's own session, see Session::run(). Calls from several threads run one after the
  /// other.
  Result<std::vector<HostArray>> run(std::span<const HostTensor> inputs) const;
  /// The call of run() that is under way fails: see Session::cancel().
  void cancel() const noexcept;
  /// A further session. Its state begins with the program's initial values.
  Result<Session> session() const;

 private:
  friend struct Internals;
  Model() = default;
  std::shared_ptr<const ModelImpl> impl_;
  std::shared_ptr<OwnSession> own_;
};

/// One user's state: mutable buffers, intermediates, staging. A session runs one call at a time. Different sessions may
/// be used from different threads.
class NIBBLE_API Session {
 public:
  Session(const Session&) = default;
  Session& operator=(const Session&) = default;

  /// Runs the program. Its outputs are in new memory.
  Result<std::vector<HostArray>> run(std::span<const HostTensor> inputs);

  // The same in steps, for outputs in the caller's memory.
  /// Checks and converts the inputs, and plans the call. The inputs' data is not needed afterwards.
  Status set_inputs(std::span<const HostTensor> inputs);
  /// The live shape of an output, after set_inputs(). A scalar's shape if there is no such output.
  Shape output_shape(std::size_t output) const;
  /// The value of an integer output, after set_inputs(). 0 if there is no such output.
  std::int64_t output_int(std::size_t output) const;
  /// Runs the program once on the inputs last set; set them again for the next call. `outputs` has one entry per
  /// output; an entry without data is skipped. An integer output is written as int64.
  Status execute(std::span<const HostOutput> outputs);
  /// execute() in two halves. submit() hands the call to the GPU and returns while it still works, so that the caller
  /// can do something else; wait() waits, writes the outputs and says what went wrong. The outputs' memory must stay
  /// until wait() returns or the session is gone. In between the session has a call in flight: everything but wait(),
  /// cancel(), states(), output_shape() and output_int() is an error. Any thread may wait.
  Status submit(std::span<const HostOutput> outputs);
  Status wait();
  /// As execute(), but with one pass per dispatch. Gives the GPU time of each.
  Result<std::vector<DispatchTime>> profile(std::span<const HostOutput> outputs);
  /// Lets the call that is under way fail with `cancelled`, as soon as what the GPU works on is done; without a call it
  /// does nothing. For any thread. A call is under way from set_inputs() to the end of execute() or wait(), or during
  /// run().
  /// The tensors that the session keeps may then be partly changed; of a cache only the rows that the call fills, so it
  /// can be made again.
  void cancel() noexcept;
  /// The tensors that the session keeps from call to call.
  Result<std::vector<StateInfo>> states() const;

  // What a session keeps can be taken back, copied and stored. None of this is possible while a call is in flight.
  /// From now on `rows` rows are in use of every state with a row axis: the next call goes on there. At most as many as
  /// are in use now. If a state has no rows (see StateInfo), or if an op sees all of them, only rewind(0) is possible,
  /// which is reset().
  Status rewind(std::int64_t rows);
  /// All state is what the program says that it begins with; no rows are in use.
  Status reset();
  /// A further session of the model, whose state equals this one's: rows in use are copied on the device.
  Result<Session> fork();
  /// Writes the state to a file, which only its owner can read: all of it, or none.
  Status save(const std::string& path);
  /// Takes the state that save() wrote, of this program with these weights and an equal layout (f16_cache). A file that
  /// is refused changes nothing. If reading it or the GPU fails in the middle, calls are refused until the session is
  /// reset or restored.
  Status restore(const std::string& path);

 private:
  friend struct Internals;
  Session() = default;
  std::shared_ptr<SessionImpl> impl_;
};

struct TuneOptions : Options {
  std::string output = {};  ///< the file that the tuning is added to; empty: it is kept for this user
  /// How many cases are done, and how many there are.
  std::function<void(std::uint64_t done, std::uint64_t total)> on_progress = {};
};

/// Measures which kernel variants are the fastest for a program on a device, for `tune_ms` milliseconds at most, and
/// keeps that for later loads. Gives the tuning as JSON, which the option `tuning` takes too. If the stop check ends
/// it, what was measured until then is kept as well.
NIBBLE_API Result<std::string> tune(const Device& device, const std::string& path, const TuneOptions& options = {});

/// `check` is asked on this thread, between the submissions of its calls and loads, and while a large program is
/// planned: true ends them with `cancelled`. It may cancel the session whose call asks, but not use it. Null for none.
NIBBLE_API void set_stop_check(bool (*check)()) noexcept;

/// A trace in the format that chrome://tracing and Perfetto read. An error only where there is no memory.
NIBBLE_API Result<std::string> chrome_trace(const Trace& trace);

/// Nibble's version, "0.1.0".
NIBBLE_API std::string_view version() noexcept;

}  // namespace nibble
