#include "api/session.hpp"

#include <algorithm>
#include <cstring>

#include "api/describe.hpp"
#include "graph/guarded.hpp"

namespace nibble {

Result<std::shared_ptr<SessionImpl>> SessionImpl::make(std::shared_ptr<const ModelImpl> model) {
  TRY(gpu::check_process());
  TRY_ASSIGN(auto executor, gpu::Executor::make(model->resources, model->boundary, *model->constants));
  return adopt(std::move(model), std::move(executor));
}

std::shared_ptr<SessionImpl> SessionImpl::adopt(std::shared_ptr<const ModelImpl> model,
                                                std::unique_ptr<gpu::Executor> executor) {
  auto self = gpu::make_kept<SessionImpl>();
  self->model = std::move(model);
  self->executor = std::move(executor);
  self->graph_outputs_.resize(self->model->resources->plan()->layout().outputs.size());
  self->outputs_.resize(self->signature().outputs.size());
  self->kept_.resize(self->signature().inputs.size());
  return self;
}

Result<Turns::Turn> SessionImpl::take_turn() {
  TRY(gpu::check_process());
  return turns_.take();
}

Status SessionImpl::set_inputs(std::span<const HostTensor> inputs) {
  TRY_ASSIGN(const auto turn, take_turn());
  return set(inputs);
}

Status SessionImpl::set(std::span<const HostTensor> inputs) {
  TRY(executor->set_inputs(inputs));
  auto status = guarded([&] { return keep_inputs(inputs); });
  if (!status) executor->clear_inputs();
  return status;
}

Status SessionImpl::keep_inputs(std::span<const HostTensor> inputs) {
  for (const auto& from : signature().output_sources) {
    if (from.kind != OutputSource::Kind::input || signature().inputs[from.index].is_int) continue;
    const HostTensor& tensor = inputs[from.index];
    Kept& kept = kept_[from.index];
    // A tensor that the graph takes as a SymInt may be given as an integer.
    const std::int64_t integer = executor->taken(from.index).integer;
    kept.dtype = tensor.is_int ? DType::i64 : tensor.dtype;
    kept.bytes = tensor.is_int ? sizeof(integer) : Size::bytes(tensor.shape, tensor.dtype).unchecked();
    TRY_ASSIGN(std::byte * memory, kept.memory.take(kept.bytes));
    if (kept.bytes != 0) std::memcpy(memory, tensor.is_int ? &integer : tensor.data, kept.bytes);
  }
  return {};
}

Shape SessionImpl::output_shape(std::size_t output) const {
  if (gpu::is_forked() || output >= signature().output_sources.size()) return {};
  const auto& from = signature().output_sources[output];
  switch (from.kind) {
    case OutputSource::Kind::graph: return executor->stepper().output_shape(from.index);
    case OutputSource::Kind::input: return executor->taken(from.index).shape;
    case OutputSource::Kind::constant: return {};
  }
  return {};
}

std::int64_t SessionImpl::output_int(std::size_t output) const {
  if (gpu::is_forked() || output >= signature().output_sources.size()) return 0;
  const auto& from = signature().output_sources[output];
  switch (from.kind) {
    case OutputSource::Kind::graph: return executor->stepper().output_int(from.index);
    case OutputSource::Kind::input: return executor->taken(from.index).integer;
    case OutputSource::Kind::constant: return from.value;
  }
  return 0;
}

Status SessionImpl::execute(std::span<const HostOutput> outputs) {
  TRY_ASSIGN(const auto turn, take_turn());
  TRY(hand_over(outputs));
  return finish();
}

Status SessionImpl::submit(std::span<const HostOutput> outputs) {
  TRY_ASSIGN(const auto turn, take_turn());
  return hand_over(outputs);
}

Status SessionImpl::wait() {
  TRY_ASSIGN(const auto turn, take_turn());
  return finish();
}

Status SessionImpl::hand_over(std::span<const HostOutput> outputs) {
  TRY(take_outputs(outputs));
  return executor->submit(graph_outputs_);
}

Status SessionImpl::finish() {
  TRY(executor->wait(graph_outputs_));
  finish_outputs();
  return {};
}

Result<std::vector<DispatchTime>> SessionImpl::profile(std::span<const HostOutput> outputs) {
  TRY_ASSIGN(const auto turn, take_turn());
  TRY(take_outputs(outputs));
  TRY_ASSIGN(auto times, executor->profile(graph_outputs_));
  finish_outputs();
  return times;
}

std::vector<StateInfo> SessionImpl::states() const {
  const auto& descs = model->resources->plan()->layout().states;
  const auto rows = executor->state_rows();
  std::vector<StateInfo> states;
  states.reserve(descs.size());
  for (std::size_t i = 0; i < descs.size(); ++i) states.push_back(state_info(descs[i], rows[i]));
  return states;
}

Result<std::vector<HostArray>> SessionImpl::run(std::span<const HostTensor> inputs) {
  TRY_ASSIGN(const auto turn, take_turn());
  TRY(set(inputs));
  std::vector<HostArray> results;
  std::vector<HostOutput> outputs;
  for (std::size_t i = 0; i < signature().outputs.size(); ++i) {
    const auto& info = signature().outputs[i];
    auto& result = results.emplace_back();
    if (info.is_int) {
      result.is_int = true;
      result.integer = output_int(i);
      outputs.emplace_back();
      continue;
    }
    result.dtype = info.dtype;
    result.shape = output_shape(i);
    result.bytes = Size::bytes(result.shape, result.dtype).unchecked();
    result.data.reset(new (std::nothrow) std::byte[std::max<std::size_t>(1, result.bytes)]);
    if (result.data == nullptr) {
      return fail(ErrorCode::out_of_memory, "no memory for the {} bytes of output {}", result.bytes, i);
    }
    outputs.push_back({result.dtype, result.data.get(), result.bytes});
  }
  TRY(hand_over(outputs));
  TRY(finish());
  return results;
}

Status SessionImpl::take_outputs(std::span<const HostOutput> outputs) {
  TRY(executor->check_ready());
  if (outputs.size() != signature().outputs.size()) {
    return std::unexpected(wrong_output_count(outputs.size(), signature().outputs.size()));
  }
  std::ranges::fill(graph_outputs_, HostOutput{});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].data == nullptr) continue;
    const auto& from = signature().output_sources[i];
    std::optional<DType> only;
    if (from.kind == OutputSource::Kind::input) only = kept_[from.index].dtype;
    if (from.kind == OutputSource::Kind::graph) {
      // A method may return one output of its graph several times. The first is read back, and the others are copied
      // from it.
      auto& first = graph_outputs_[from.index];
      if (first.data == nullptr) {
        first = outputs[i];
      } else {
        only = first.dtype;
      }
    }
    TRY(model->boundary->check_output(i, outputs[i], output_shape(i), only));
  }
  std::ranges::copy(outputs, outputs_.begin());
  return {};
}

void SessionImpl::finish_outputs() const {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const auto& from = signature().output_sources[i];
    const HostOutput& to = outputs_[i];
    if (to.data == nullptr) continue;
    if (signature().outputs[i].is_int) {
      const std::int64_t integer = output_int(i);
      std::memcpy(to.data, &integer, sizeof(integer));
    } else if (from.kind == OutputSource::Kind::input) {
      std::memcpy(to.data, kept_[from.index].memory.data(), kept_[from.index].bytes);
    } else if (const auto& first = graph_outputs_[from.index]; first.data != to.data) {
      std::memcpy(to.data, first.data, Size::bytes(output_shape(i), first.dtype).unchecked());
    }
  }
}

Result<std::vector<HostArray>> OwnSession::run(const std::shared_ptr<const ModelImpl>& model,
                                               std::span<const HostTensor> inputs) {
  TRY(turns_.check_thread());
  const std::lock_guard lock(mutex_);
  TRY_ASSIGN(const auto turn, turns_.take());
  if (session_ == nullptr) {
    TRY_ASSIGN(session_, SessionImpl::make(model));
    made_ = session_.get();
  }
  return session_->run(inputs);
}

void OwnSession::cancel() const noexcept {
  if (SessionImpl* session = made_; session != nullptr) session->executor->cancel();
}

}  // namespace nibble
