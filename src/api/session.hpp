// What the handles of nibble.hpp point to.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "api/fingerprint.hpp"
#include "api/saved_state.hpp"
#include "gpu/executor.hpp"
#include "nibble/nibble.hpp"
#include "plan/constant_source.hpp"
#include "program/program.hpp"

namespace nibble {

struct DeviceImpl {
  std::shared_ptr<gpu::Device> gpu;
  DeviceInfo info;
};

struct ModelImpl {
  std::shared_ptr<const gpu::ModelResources> resources;
  std::shared_ptr<const Boundary> boundary;
  std::vector<ConstantMethod> constant_methods;
  std::vector<std::string> notes;
  std::unique_ptr<ConstantSource> constants;  ///< what sessions begin with
  Fingerprint fingerprint;
  double load_start_ms = 0;
  double load_end_ms = 0;
};

/// Lets one call in at a time.
class Turns {
 public:
  struct Leave {
    void operator()(std::atomic<std::thread::id>* user) const { user->store({}); }
  };
  /// While it lives, no other call gets in.
  using Turn = std::unique_ptr<std::atomic<std::thread::id>, Leave>;

  /// An error if a call is in.
  Result<Turn> take() {
    std::thread::id user;
    if (user_.compare_exchange_strong(user, std::this_thread::get_id())) return Turn(&user_);
    TRY(check_thread());
    return fail(ErrorCode::invalid_argument, "another thread is using this session: give each thread its own");
  }
  /// An error if this thread is in: if it waited for its turn, it would wait for itself.
  Status check_thread() const {
    if (user_ != std::this_thread::get_id()) return {};
    return fail(ErrorCode::invalid_argument,
                "this session is busy: a stop check cannot use the session whose call asks it");
  }

 private:
  std::atomic<std::thread::id> user_;  ///< none: no thread
};

/// Maps the method's inputs and outputs to the graph's. One call at a time.
struct SessionImpl {
  std::shared_ptr<const ModelImpl> model;
  std::unique_ptr<gpu::Executor> executor;

  static Result<std::shared_ptr<SessionImpl>> make(std::shared_ptr<const ModelImpl> model);

  Status set_inputs(std::span<const HostTensor> inputs);
  Shape output_shape(std::size_t output) const;
  std::int64_t output_int(std::size_t output) const;
  Status submit(std::span<const HostOutput> outputs);
  Status wait();
  Status execute(std::span<const HostOutput> outputs);
  Result<std::vector<DispatchTime>> profile(std::span<const HostOutput> outputs);
  std::vector<StateInfo> states() const;
  Status rewind(std::int64_t rows);
  Status reset();
  Result<std::shared_ptr<SessionImpl>> fork();
  /// `note`: bytes that restore() shows again.
  Status save(const std::string& path, std::span<const std::byte> note = {});
  /// `accept` sees what was saved, and may refuse it before anything changes.
  Status restore(const std::string& path, const std::function<Status(const SavedState&)>& accept = {});
  Result<std::vector<HostArray>> run(std::span<const HostTensor> inputs);

 private:
  /// The elements of an input that the method returns as an output, kept from set_inputs() to wait().
  struct Kept {
    DType dtype = DType::f32;
    std::uint64_t bytes = 0;
    gpu::HostMemory memory;
  };

  static std::shared_ptr<SessionImpl> adopt(std::shared_ptr<const ModelImpl> model,
                                            std::unique_ptr<gpu::Executor> executor);
  const MethodSignature& signature() const { return model->boundary->signature(); }
  Status set(std::span<const HostTensor> inputs);
  Status hand_over(std::span<const HostOutput> outputs);
  Status finish();
  Status keep_inputs(std::span<const HostTensor> inputs);
  Status take_outputs(std::span<const HostOutput> outputs);
  void finish_outputs() const;

  /// Begins a call, or says that another thread is in one.
  Result<Turns::Turn> take_turn();

  Turns turns_;
  std::vector<HostOutput> outputs_;  ///< the method's, of the call in flight
  std::vector<HostOutput> graph_outputs_;
  std::vector<Kept> kept_;  ///< per input; used only if an output returns it
};

/// The session that Model::run() uses; its first call makes it. It is not in ModelImpl, because every session holds
/// that.
struct OwnSession {
  Result<std::vector<HostArray>> run(const std::shared_ptr<const ModelImpl>& model, std::span<const HostTensor> inputs);
  /// Waits for nothing: the thread that calls it may be in the call that it ends.
  void cancel() const noexcept;

 private:
  std::mutex mutex_;  ///< held during a call
  Turns turns_;       ///< of who holds it
  std::shared_ptr<SessionImpl> session_;
  std::atomic<SessionImpl*> made_ = nullptr;  ///< session_, from then on
};

/// Converts between the public handles and the structs above.
struct Internals {
  template <class Handle>
  static const auto& of(const Handle& handle) {
    return handle.impl_;
  }
  template <class Handle, class Impl>
  static Handle make(std::shared_ptr<Impl> impl) {
    Handle handle;
    handle.impl_ = std::move(impl);
    if constexpr (std::is_same_v<Handle, Model>) handle.own_ = gpu::make_kept<OwnSession>();
    return handle;
  }
};

}  // namespace nibble
