// The GPU side of one session: its own buffers, and its calls. It knows nothing about ops.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "boundary/boundary.hpp"
#include "gpu/call_reads.hpp"
#include "gpu/call_writes.hpp"
#include "gpu/dispatcher.hpp"
#include "gpu/host_convert.hpp"
#include "gpu/in_flight.hpp"
#include "gpu/model.hpp"
#include "gpu/stop.hpp"
#include "nibble/values.hpp"

namespace nibble::gpu {

/// Host memory that is kept and grows with the tensors. Failing to allocate is an error value, not an exception.
class HostMemory {
 public:
  /// Memory for `bytes`. When it grows, the old content is lost.
  Result<std::byte*> take(std::uint64_t bytes);
  const std::byte* data() const { return memory_.get(); }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::uint64_t capacity_ = 0;
};

/// One call at a time. In the steady state nothing here allocates.
class Executor {
 public:
  /// `boundary` checks the inputs of calls; `source` has the initial values of mutable buffers.
  static Result<std::unique_ptr<Executor>> make(std::shared_ptr<const ModelResources> model,
                                                std::shared_ptr<const Boundary> boundary, ConstantSource& source);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  /// Waits for a call in flight, so that its memory is free afterwards.
  ~Executor();

  const ModelResources& model() const { return *model_; }
  /// The live shapes and integers, after set_inputs().
  const Stepper& stepper() const { return stepper_; }
  /// How many rows of each of Layout::states are in use, after the last successful call.
  std::span<const std::int64_t> state_rows() const { return state_rows_; }
  /// The next row is `rows`: those from there on are not in use any more. Where a state does not count by rows, only
  /// the beginning is left to go back to, which takes `source` as in make().
  Status rewind(std::int64_t rows, ConstantSource& source);
  /// The state as it was when the session began.
  Status reset(ConstantSource& source);
  /// Another executor of the model, with the same state. It is copied on the device.
  Result<std::unique_ptr<Executor>> fork() const;
  /// What counts of the state, in bounded pieces, from the first of live_ranges() to the last.
  Status read_state(const std::function<Status(std::span<const std::byte>)>& take) const;
  /// The other way: `source` has the bytes of live_ranges(), one after the other, as constant 0.
  Status write_state(std::span<const std::int64_t> rows, ConstantSource& source);
  /// What counts of the state, with so many rows in use.
  std::vector<StateRange> live_ranges(std::span<const std::int64_t> rows) const;

  /// A buffer of the layout, of the model or of this session, which is not mapped until the next call. For benchmarks.
  WGPUBuffer buffer(BufferId id) {
    writes_.release();
    return buffers_.raw[id];
  }
  /// How many inputs were written where kernels read them, without a copy.
  std::uint64_t mapped_inputs() const { return writes_.mapped(); }

  /// Begins a call: checks and converts the method's inputs, plans it and uploads the data to the GPU. An error while a
  /// call is in flight.
  Status set_inputs(std::span<const HostTensor> inputs);
  /// An input as set_inputs() accepted it.
  const TakenInput& taken(std::size_t input) const { return taken_[input]; }
  /// Requires inputs to be set again before the next call.
  void clear_inputs() {
    stage_ = Stage::idle;
    call_.end();
  }
  /// The call that set_inputs() began fails, if it has not ended; from any thread.
  void cancel() noexcept { call_.cancel(); }
  /// An error if inputs are not set.
  Status check_ready() const;
  /// An error if a call is in flight.
  Status check_idle() const;
  /// An error then, or if the state is incomplete.
  Status check_settled() const;
  /// Hands the call to the GPU; it may overwrite the inputs' buffers. `outputs` are the graph's, already checked. When
  /// this returns, two submissions at most are not done. While the device is traced, GPU times are recorded.
  Status submit(std::span<const HostOutput> outputs);
  /// Waits for the call that submit() handed over, and writes the same `outputs`. Integer outputs are in the stepper.
  Status wait(std::span<const HostOutput> outputs);
  /// Both, with GPU times; needs timestamp queries.
  Result<std::vector<DispatchTime>> profile(std::span<const HostOutput> outputs);

  // For a tuner, on a plan for all variants.
  /// Which variant a choice selects from the next set_inputs() on: see Stepper::force().
  void force(const Choice* choice, std::size_t variant) { stepper_.force(choice, variant); }
  /// Does what the call would do, `times` times, and gives the microseconds of one: on the GPU if it has timestamps,
  /// and if the call is one submission, else until the host knows that it is done. Outputs are not read, and the inputs
  /// stay set.
  Result<double> measure(std::uint32_t times);

 private:
  Executor(std::shared_ptr<const ModelResources> model, std::shared_ptr<const Boundary> boundary);
  /// Its state is zero.
  static Result<std::unique_ptr<Executor>> make_empty(std::shared_ptr<const ModelResources> model,
                                                      std::shared_ptr<const Boundary> boundary);

  /// What the program says about the state's beginning.
  std::vector<Upload> initial_uploads() const;
  /// Replaces all state. If it fails, the state is incomplete.
  Status fill_state(std::span<const Upload> uploads, ConstantSource& source);
  Status clear_state();
  Status take_inputs(std::span<const HostTensor> inputs);
  Status take_data(std::size_t input, const HostTensor& tensor);

  void plan_reads(std::span<const HostOutput> outputs);
  Status prepare();
  Status submit(std::span<const HostOutput> outputs, bool is_timed);
  Status submit_batches();
  /// The call's next batch; the last one with what is read back.
  Status submit_batch(std::size_t end);
  /// Makes the timer for the call's dispatches, or takes that of the call before.
  Status make_timer();
  /// After a timed call: fills times_.
  Status read_times();
  Status read_back(std::span<const HostOutput> outputs);
  std::unexpected<Error> cancelled() const;
  Status settle_writes();
  Result<double> measure_passes(std::uint32_t times);
  Result<double> measure_batches(std::uint32_t times);
  Status read_outputs(std::span<const HostOutput> outputs);

  std::shared_ptr<const ModelResources> model_;
  std::shared_ptr<const Boundary> boundary_;
  Device& device_;
  const Layout& layout_;
  Stepper stepper_;
  BufferSet buffers_;
  std::optional<Dispatcher> dispatcher_;
  CallReads reads_;
  CallWrites writes_;
  CallState call_;
  InFlight flight_;
  std::unique_ptr<Timer> timer_;        ///< if the call is timed
  std::vector<DispatchTime> times_;     ///< of the last call, if it was
  std::size_t submitted_ = 0;           ///< dispatches of the call
  std::uint64_t prepared_version_ = 0;  ///< the stepper's, for which the dispatcher is prepared
  bool can_fault_ = false;              ///< some dispatch of the call may report a fault

  std::vector<GivenInput> given_;
  std::vector<TakenInput> taken_;         ///< per input of the method
  std::vector<HostMemory> converted_;     ///< per input of the graph
  std::vector<std::int64_t> state_rows_;  ///< after the last call that succeeded
  bool is_incomplete_ = false;            ///< replacing the state failed midway
  enum class Stage : std::uint8_t {
    idle,
    ready,      ///< inputs are set
    in_flight,  ///< between submit() and wait()
  };
  Stage stage_ = Stage::idle;
  /// A call was submitted that may have reported a fault, and nobody saw that there is none: clear it before the next.
  bool fault_unread_ = false;
};

}  // namespace nibble::gpu
