// A node of a plan by itself on the device, with data of the right sizes: what a tuner measures.
#pragma once

#include <string>

#include "gpu/executor.hpp"
#include "plan/tuning_cases.hpp"

namespace nibble::gpu {

/// The elements of a node's outputs, floats as float32.
struct NodeResults {
  struct Output {
    DType dtype = DType::f32;
    DType stored = DType::f32;  ///< on the device
    std::vector<std::byte> bytes;
  };
  std::vector<Output> outputs;
};

class NodeBench {
 public:
  /// `source` has the constants of the plan's graph, and outlives this.
  static Result<std::unique_ptr<NodeBench>> make(const std::shared_ptr<Device>& device, const Plan& plan,
                                                 std::uint32_t node, Options options, Registry registry,
                                                 ConstantSource& source);

  /// Makes inputs for a call: the same in every process.
  void fill(const TuningCases::Call& call);
  /// Makes the node ready for the call, with this variant.
  Status select(const Choice* choice, std::size_t variant);
  /// What select() made ready, once; the state is that of the beginning.
  Result<NodeResults> run();
  /// Microseconds of one, of so many.
  Result<double> measure(std::uint32_t times) { return executor_->measure(times); }

 private:
  struct Input {
    HostTensor tensor;
    std::vector<std::byte> bytes;
  };

  explicit NodeBench(ConstantSource& source) : source_(source) {}
  void fill(std::size_t input, const TuningCases::Call& call);
  Status reset();

  ConstantSource& source_;
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const Boundary> boundary_;
  std::unique_ptr<Executor> executor_;
  std::vector<Input> inputs_;
  std::vector<HostTensor> given_;
  bool is_incomplete_ = false;  ///< the state, because what gave up on a variant came while it was replaced
};

}  // namespace nibble::gpu
