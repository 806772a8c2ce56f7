// What stands behind the handles of nibble.hpp.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "gpu/executor.hpp"
#include "nibble/nibble.hpp"
#include "plan/constant_source.hpp"
#include "program/program.hpp"

namespace nibble {

struct DeviceState {
  std::shared_ptr<gpu::Device> gpu;
  DeviceInfo info;
};

struct ModelState {
  std::shared_ptr<const gpu::ModelResources> resources;
  std::shared_ptr<const Boundary> boundary;
  std::vector<ConstantMethod> constant_methods;
  /// Where a session's mutable buffers begin; null when there are none.
  std::shared_ptr<ConstantSource> constants;
};

/// Maps the method's inputs and outputs to the graph's. One call at a time.
struct SessionState {
  std::shared_ptr<const ModelState> model;
  std::unique_ptr<gpu::Executor> executor;

  static Result<std::shared_ptr<SessionState>> make(std::shared_ptr<const ModelState> model, ConstantSource& source);

  Status set_inputs(std::span<const HostTensor> inputs);
  Shape output_shape(std::size_t output) const;
  std::int64_t output_int(std::size_t output) const;
  Status execute(std::span<const HostOutput> outputs);
  Result<std::vector<DispatchTime>> profile(std::span<const HostOutput> outputs);
  std::vector<StateInfo> states() const;

 private:
  /// The elements of an input that the method hands through, kept from set_inputs() to execute().
  struct Kept {
    DType dtype = DType::f32;
    std::uint64_t bytes = 0;
    gpu::HostMemory memory;
  };

  const MethodSignature& signature() const { return model->boundary->signature(); }
  Status keep_inputs(std::span<const HostTensor> inputs);
  Status take_outputs(std::span<const HostOutput> outputs);
  void finish_outputs(std::span<const HostOutput> outputs) const;

  std::vector<HostOutput> graph_outputs_;
  std::vector<Kept> kept_;  ///< per input; used only for those that an output hands through
};

/// From the public handles to the above, and back.
struct Internals {
  template <class Handle>
  static const auto& of(const Handle& handle) {
    return handle.state_;
  }
  template <class Handle, class State>
  static Handle make(std::shared_ptr<State> state) {
    Handle handle;
    handle.state_ = std::move(state);
    return handle;
  }
};

}  // namespace nibble
