#include "api/session.hpp"

#include <algorithm>
#include <cstring>

#include "api/states.hpp"

namespace nibble {

Result<std::shared_ptr<SessionState>> SessionState::make(std::shared_ptr<const ModelState> model,
                                                         ConstantSource& source) {
  auto self = std::make_shared<SessionState>();
  self->model = std::move(model);
  const Layout& layout = self->model->resources->plan()->layout();
  // Errors name an input or output by the caller's number.
  gpu::Numbers numbers{std::vector<std::size_t>(layout.inputs.size()), std::vector<std::size_t>(layout.outputs.size())};
  for (std::size_t i = 0; i < self->model->inputs.size(); ++i) {
    if (const auto to = self->model->graph_inputs[i]; to >= 0) numbers.inputs[static_cast<std::size_t>(to)] = i;
  }
  for (std::size_t i = self->model->outputs.size(); i-- > 0;) {
    const auto& from = self->model->output_sources[i];
    if (from.kind == OutputSource::Kind::graph) numbers.outputs[from.index] = i;
  }
  TRY_ASSIGN(self->executor, gpu::Executor::make(self->model->resources, source, std::move(numbers)));
  self->graph_inputs_.resize(layout.inputs.size());
  self->graph_outputs_.resize(layout.outputs.size());
  self->kept_.resize(self->model->inputs.size());
  return self;
}

Status SessionState::set_inputs(std::span<const HostTensor> inputs) {
  executor->clear_inputs();
  if (inputs.size() != model->inputs.size()) {
    return fail(ErrorCode::invalid_argument, "{} {} given, but the program takes {}", inputs.size(),
                inputs.size() == 1 ? "input is" : "inputs are", model->inputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // Whatever the exporter folded from a fixed shape would be wrong for another.
    const auto& want = model->inputs[i];
    if (!want.is_int && !want.dynamic && !inputs[i].is_int && inputs[i].shape != want.shape) {
      return fail(ErrorCode::invalid_argument, "input {} has shape {}, but the program takes {}", i, inputs[i].shape,
                  want.shape);
    }
    if (const auto to = model->graph_inputs[i]; to >= 0) graph_inputs_[static_cast<std::size_t>(to)] = inputs[i];
  }
  TRY(keep_inputs(inputs));
  return executor->set_inputs(graph_inputs_);
}

Status SessionState::keep_inputs(std::span<const HostTensor> inputs) {
  for (const auto& from : model->output_sources) {
    if (from.kind != OutputSource::Kind::input) continue;
    const HostTensor& tensor = inputs[from.index];
    Kept& kept = kept_[from.index];
    kept.tensor = tensor;
    if (tensor.is_int) continue;
    const Size bytes = Size::bytes(tensor.shape, tensor.dtype);
    if (!bytes.valid())
      return fail(ErrorCode::invalid_argument, "input {} of shape {} is too large", from.index, tensor.shape);
    const auto count = bytes.unchecked();
    if (count != 0 && tensor.data == nullptr) {
      return fail(ErrorCode::invalid_argument, "input {} has shape {}, but no data", from.index, tensor.shape);
    }
    TRY_ASSIGN(kept.tensor.data, kept.memory.take(count));
    if (count != 0) std::memcpy(const_cast<void*>(kept.tensor.data), tensor.data, count);
  }
  return {};
}

Shape SessionState::output_shape(std::size_t output) const {
  const auto& from = model->output_sources[output];
  switch (from.kind) {
    case OutputSource::Kind::graph: return executor->stepper().output_shape(from.index);
    case OutputSource::Kind::input: return kept_[from.index].tensor.shape;
    case OutputSource::Kind::constant: return {};
  }
  return {};
}

std::int64_t SessionState::output_int(std::size_t output) const {
  const auto& from = model->output_sources[output];
  switch (from.kind) {
    case OutputSource::Kind::graph: return executor->stepper().output_int(from.index);
    case OutputSource::Kind::input: return kept_[from.index].tensor.integer;
    case OutputSource::Kind::constant: return from.value;
  }
  return 0;
}

Status SessionState::execute(std::span<const HostOutput> outputs) {
  TRY(take_outputs(outputs));
  TRY(executor->execute(graph_outputs_));
  return finish_outputs(outputs);
}

Result<std::vector<DispatchTime>> SessionState::profile(std::span<const HostOutput> outputs) {
  TRY(take_outputs(outputs));
  TRY_ASSIGN(auto times, executor->profile(graph_outputs_));
  TRY(finish_outputs(outputs));
  return times;
}

std::vector<StateInfo> SessionState::states() const {
  const auto& descs = model->resources->plan()->layout().states;
  const auto rows = executor->state_rows();
  std::vector<StateInfo> states;
  states.reserve(descs.size());
  for (std::size_t i = 0; i < descs.size(); ++i) states.push_back(state_info(descs[i], rows[i]));
  return states;
}

Status SessionState::take_outputs(std::span<const HostOutput> outputs) {
  if (outputs.size() != model->outputs.size()) {
    return fail(ErrorCode::invalid_argument, "{} {} given, but the program has {}", outputs.size(),
                outputs.size() == 1 ? "output is" : "outputs are", model->outputs.size());
  }
  std::ranges::fill(graph_outputs_, HostOutput{});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& from = model->output_sources[i];
    // A method may return one output of its graph several times: the first is read back, the others are copies.
    if (from.kind == OutputSource::Kind::graph && graph_outputs_[from.index].data == nullptr) {
      graph_outputs_[from.index] = outputs[i];
    }
  }
  return {};
}

Status SessionState::finish_outputs(std::span<const HostOutput> outputs) const {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& from = model->output_sources[i];
    const HostOutput& to = outputs[i];
    if (to.data == nullptr) continue;
    HostTensor source;
    std::int64_t integer = 0;
    if (model->outputs[i].is_int) {
      integer = output_int(i);
      source = {DType::i64, {}, &integer, false, 0};
    } else if (from.kind == OutputSource::Kind::input) {
      source = kept_[from.index].tensor;
    } else {
      const auto& first = graph_outputs_[from.index];
      source = {first.dtype, output_shape(i), first.data, false, 0};
    }
    if (source.data == to.data) continue;
    const auto bytes = static_cast<std::size_t>(source.shape.numel()) * size_of(source.dtype);
    if (to.dtype != source.dtype || to.bytes < bytes) {
      return fail(ErrorCode::invalid_argument, "output {} is {} bytes of {}, but {} bytes of {} were asked for", i,
                  bytes, source.dtype, to.bytes, to.dtype);
    }
    if (bytes != 0) std::memcpy(to.data, source.data, bytes);
  }
  return {};
}

}  // namespace nibble
