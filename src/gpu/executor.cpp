#include "gpu/executor.hpp"

#include <algorithm>

#include "gpu/process.hpp"
#include "gpu/timer.hpp"
#include "graph/guarded.hpp"

namespace nibble::gpu {

Executor::Executor(std::shared_ptr<const ModelResources> model, std::shared_ptr<const Boundary> boundary)
    : model_(std::move(model)),
      boundary_(std::move(boundary)),
      device_(*model_->device()),
      layout_(model_->plan()->layout()),
      stepper_(model_->plan()),
      taken_(boundary_->signature().inputs.size()),
      converted_(layout_.inputs.size()),
      state_rows_(layout_.states.size()) {
  given_.reserve(taken_.size());
}

Result<std::unique_ptr<Executor>> Executor::make(std::shared_ptr<const ModelResources> model,
                                                 std::shared_ptr<const Boundary> boundary, ConstantSource& source) {
  const Phase phase(model->device()->tracer(), "make session");
  TRY_ASSIGN(auto self, make_empty(std::move(model), std::move(boundary)));
  TRY(upload(self->device_, source, self->initial_uploads(), self->buffers_.raw, kStatePace, nullptr));
  return self;
}

Result<std::unique_ptr<Executor>> Executor::make_empty(std::shared_ptr<const ModelResources> model,
                                                       std::shared_ptr<const Boundary> boundary) {
  std::unique_ptr<Executor> self(new Executor(std::move(model), std::move(boundary)));
  Device& device = self->device_;
  const Layout& layout = self->layout_;
  TRY_ASSIGN(self->buffers_, BufferSet::make(device, layout, [](BufferRole role) {
               return role != BufferRole::constant && role != BufferRole::loading;
             }));
  auto constants = self->model_->constants();
  for (std::size_t i = 0; i < constants.size(); ++i) {
    if (constants[i] != nullptr) self->buffers_.raw[i] = constants[i];
  }
  TRY_ASSIGN(self->dispatcher_,
             Dispatcher::make(device, self->model_->pipelines(), self->buffers_.raw, layout.max_dispatches));
  TRY(self->reads_.make(device, layout, self->buffers_.raw));
  self->writes_.make(device, layout, self->buffers_.raw);
  return self;
}

// Prepares bind groups and parameters, which stay the same as long as the shapes do.
Status Executor::prepare() {
  if (prepared_version_ == stepper_.version()) return {};
  const Phase phase(device_.tracer(), "bind");
  const auto dispatches = stepper_.dispatches();
  const auto& descs = layout_.pipelines;
  prepared_version_ = 0;
  can_fault_ = std::ranges::any_of(dispatches, [&](const Dispatch* d) { return descs[d->pipeline].reports_faults; });
  TRY(dispatcher_->prepare(dispatches, stepper_.params()));
  prepared_version_ = stepper_.version();
  return {};
}

Status Executor::check_ready() const {
  TRY(check_idle());
  if (stage_ == Stage::ready) return {};
  return fail(ErrorCode::invalid_argument, "the inputs must be set before every call, and setting them must succeed");
}

Status Executor::check_idle() const {
  if (stage_ != Stage::in_flight) return {};
  return fail(ErrorCode::invalid_argument, "a call of this session is in flight: wait for it first");
}

Status Executor::submit(std::span<const HostOutput> outputs) {
  return submit(outputs, device_.tracer().is_on() && device_.profile().timestamp_query);
}

Status Executor::submit(std::span<const HostOutput> outputs, bool is_timed) {
  TRY(check_ready());
  plan_reads(outputs);
  stage_ = Stage::idle;
  submitted_ = 0;
  flight_ = {};
  times_.clear();
  if (!is_timed || stepper_.dispatches().empty()) timer_.reset();
  auto status = device_.check();
  if (status && is_timed) status = make_timer();
  if (status) status = submit_batches();
  if (status) {
    stage_ = Stage::in_flight;
  } else {
    reads_.release();
    call_.end();
  }
  return status;
}

Status Executor::submit_batches() {
  const auto batches = stepper_.batches();
  if (batches.empty() && reads_.empty()) return {};

  TRY(prepare());
  if (can_fault_) reads_.add_fault();
  writes_.release();
  for (std::size_t i = 0; i < std::max<std::size_t>(batches.size(), 1); ++i) {
    TRY(flight_.make_room(device_));
    // Asking may take longer than a small call, so nobody is asked before the GPU has much to do.
    if (call_.is_cancelled() || (flight_.submitted() >= 2 && is_stop_wanted())) {
      TRY(flight_.drain(device_));
      return cancelled();
    }
    TRY(check_process());  // whoever was asked may have forked
    TRY(submit_batch(batches.empty() ? 0 : batches[i]));
  }
  return {};
}

Status Executor::submit_batch(std::size_t end) {
  const std::size_t begin = submitted_;
  const bool is_last = end == stepper_.dispatches().size();
  Phase phase(device_.tracer(), "encode");
  ErrorScope scope(device_, ErrorScope::Catch::validation);
  const CommandEncoder encoder = device_.make_encoder();
  if (fault_unread_ && begin == 0)
    device_.call().CommandEncoderClearBuffer(encoder.get(), buffers_.raw[layout_.fault_buffer], 0, WGPU_WHOLE_SIZE);
  dispatcher_->encode(encoder.get(), begin, end, timer_.get());
  if (is_last) reads_.encode(encoder.get());
  const CommandBuffer commands = device_.finish(encoder);
  if (auto status = scope.close("encoding a call"); !status) {
    prepared_version_ = 0;
    dispatcher_->forget();
    return status;
  }
  phase.next("submit");
  if (timer_ && begin == 0) timer_->submitted = now_us();
  flight_.add(device_.submit(commands));
  submitted_ = end;
  fault_unread_ = can_fault_;
  if (is_last) {
    reads_.request();
    writes_.request();
  }
  return scope.settle("submitting a call");
}

Status Executor::wait(std::span<const HostOutput> outputs) {
  if (stage_ != Stage::in_flight) {
    return fail(ErrorCode::invalid_argument, "no call of this session is in flight: submit one first");
  }
  stage_ = Stage::idle;
  const auto status = read_back(outputs);
  const bool is_cancelled = call_.end();
  TRY(status);
  if (is_cancelled) return cancelled();
  for (std::size_t i = 0; i < state_rows_.size(); ++i) state_rows_[i] = stepper_.state_rows(i);
  return timer_ ? read_times() : Status();
}

Status Executor::read_back(std::span<const HostOutput> outputs) {
  if (flight_.submitted() == 0) return {};
  if (reads_.empty()) {
    TRY(flight_.drain(device_));
    if (timer_) timer_->done = now_us();
    return {};
  }
  Phase phase(device_.tracer(), "wait");
  TRY(reads_.wait(flight_.last()));
  if (timer_) timer_->done = now_us();
  phase.next("read back");
  const auto status = guarded([&] { return read_outputs(outputs); });
  reads_.release();
  TRY(status);
  return device_.check();
}

Executor::~Executor() {
  if (stage_ == Stage::in_flight && flight_.submitted() != 0 && !device_.has_failed()) device_.wait(flight_.last());
}

std::unexpected<Error> Executor::cancelled() const {
  const bool has_state = !layout_.states.empty();
  if (submitted_ == 0) return fail(ErrorCode::cancelled, "the call was cancelled before it began");
  if (submitted_ == stepper_.dispatches().size()) {
    return fail(ErrorCode::cancelled, "the call was cancelled when it was done{}",
                has_state ? ": the session's state is changed" : "");
  }
  return fail(ErrorCode::cancelled, "the call was cancelled after {} of its {} dispatches{}", submitted_,
              stepper_.dispatches().size(), has_state ? ": the session's state may be partly changed" : "");
}

Status Executor::read_outputs(std::span<const HostOutput> outputs) {
  if (can_fault_) {
    std::array<std::uint32_t, kFaultWords> words{};
    std::memcpy(words.data(), reads_.fault(), sizeof(words));
    if (words[0] != 0) return std::unexpected(stepper_.describe_fault(words));
    fault_unread_ = false;
  }
  for (const auto& read : reads_.outputs()) {
    const auto& to = outputs[read.output];
    from_device(layout_.outputs[read.output].dtype, read.data, to.dtype, to.data, read.count);
  }
  return {};
}

}  // namespace nibble::gpu
