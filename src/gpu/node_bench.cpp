#include "gpu/node_bench.hpp"

#include <algorithm>

#include "plan/alone.hpp"
#include "plan/tuning_data.hpp"

namespace nibble::gpu {

Result<std::unique_ptr<NodeBench>> NodeBench::make(const std::shared_ptr<Device>& device, const Plan& plan,
                                                   std::uint32_t node, Options options, Registry registry,
                                                   ConstantSource& source) {
  std::unique_ptr<NodeBench> self(new NodeBench(source));
  TRY_ASSIGN(self->plan_, plan_alone(plan, node, std::move(options), registry));
  self->boundary_ = std::make_shared<const Boundary>(signature_of(self->plan_->graph()), self->plan_);
  TRY_ASSIGN(auto model, ModelResources::make_of_what_compiles(device, self->plan_, source));
  TRY_ASSIGN(self->executor_, Executor::make(std::move(model), self->boundary_, source));
  self->inputs_.resize(self->plan_->graph().inputs.size());
  return self;
}

void NodeBench::fill(const TuningCases::Call& call) {
  given_.clear();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    fill(i, call);
    given_.push_back(inputs_[i].tensor);
  }
}

void NodeBench::fill(std::size_t input, const TuningCases::Call& call) {
  const auto& desc = plan_->layout().inputs[input];
  auto& [tensor, bytes] = inputs_[input];
  tensor = {};
  if (desc.is_symint) {
    tensor.is_int = true;
    tensor.integer = call.live.ints[desc.value];
    return;
  }
  tensor.dtype = desc.staging;
  tensor.shape = call.live.shapes[desc.value];
  bytes.assign(std::max<std::size_t>(1, static_cast<std::size_t>(tensor.shape.numel()) * size_of(desc.staging)), {});
  tensor.data = bytes.data();
  const auto rows = desc.checks.empty() ? 1 : static_cast<std::uint64_t>(boundary_->range(input).highest) + 1;
  fill_input(desc, rows, call.integer, bytes);
}

Status NodeBench::reset() {
  if (plan_->layout().states.empty()) return {};
  is_incomplete_ = true;
  TRY(executor_->reset(source_));
  is_incomplete_ = false;
  return {};
}

Status NodeBench::select(const Choice* choice, std::size_t variant) {
  if (is_incomplete_) TRY(reset());
  executor_->force(choice, variant);
  TRY(executor_->set_inputs(given_));
  return executor_->model().check(executor_->stepper().dispatches());
}

Result<NodeResults> NodeBench::run() {
  TRY(reset());
  NodeResults results;
  std::vector<HostOutput> outputs;
  const auto& descs = plan_->layout().outputs;
  for (std::size_t i = 0; i < descs.size(); ++i) {
    auto& [dtype, stored, bytes] = results.outputs.emplace_back();
    HostOutput to;
    if (!descs[i].is_symint) {
      to.dtype = dtype = descs[i].staging;
      stored = descs[i].dtype;
      bytes.resize(static_cast<std::size_t>(executor_->stepper().output_shape(i).numel()) * size_of(dtype));
      to.data = bytes.data();
      to.bytes = bytes.size();
    }
    outputs.push_back(to);
  }
  TRY(executor_->submit(outputs));
  TRY(executor_->wait(outputs));
  return results;
}

}  // namespace nibble::gpu
