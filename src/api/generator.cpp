#include "api/generator.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "api/clock.hpp"
#include "generate/arithmetic.hpp"
#include "gpu/process.hpp"
#include "graph/guarded.hpp"
#include "plan/print.hpp"

namespace nibble {
namespace {

bool is_tensor(const TensorInfo& info, DType dtype, std::size_t rank) {
  return !info.is_int && info.dtype == dtype && info.shape.rank() == rank;
}

std::unexpected<Error> no_language_model(std::string_view why) {
  return fail(
      ErrorCode::unsupported,
      "this program is no language model: {}. It must take tokens int64 [1, n] and a position int64 [1], keep a "
      "cache, and give logits float32 [1, vocabulary] or [1, n, vocabulary]",
      why);
}

std::unexpected<Error> not_started() {
  return fail(ErrorCode::invalid_argument, "a generation must be started before its first token");
}

Result<LanguageModelInfo> describe(const Model& model, const Session& session, LanguageModelOutputs& places) {
  const auto& inputs = model.inputs();
  const auto& outputs = model.outputs();
  if (inputs.size() != 2 || !is_tensor(inputs[0], DType::i64, 2) || inputs[0].shape[0] != 1) {
    return no_language_model("its inputs are others");
  }
  if (!is_tensor(inputs[1], DType::i64, 1) || inputs[1].shape[0] != 1) {
    return no_language_model("its second input is no position");
  }
  places.has_rows = !outputs.empty() && is_tensor(outputs[0], DType::f32, 3);
  if (!places.has_rows && (outputs.empty() || !is_tensor(outputs[0], DType::f32, 2))) {
    return no_language_model("its first output is no logits");
  }
  const auto& logits = outputs[0].shape;
  LanguageModelInfo info{.vocabulary = logits[logits.rank() - 1], .chunk = inputs[0].shape[1]};
  if (logits[0] != 1 || info.vocabulary < 1 || info.chunk < 1) return no_language_model("it has a size of none");
  if (info.vocabulary > generate::kMostTokens) return no_language_model("its vocabulary is larger than any");
  TRY_ASSIGN(const auto states, session.states());
  for (const auto& state : states) {
    if (!state.row_axis) continue;
    const auto rows = state.shape[*state.row_axis];
    info.context_length = info.context_length == 0 ? rows : std::min(info.context_length, rows);
  }
  if (info.context_length == 0) return no_language_model("it keeps no cache");
  const auto& plan = *Internals::of(model)->resources->plan();
  const auto& first = Internals::of(model)->boundary->signature().output_sources[0];
  // They may be of another output, if the program returns several: then all logits are read back.
  const bool are_of_logits = first.kind == OutputSource::Kind::graph && first.index == plan.graph().candidates_of;
  if (plan.graph().added_outputs != 0 && are_of_logits) places.candidates = outputs.size() - 3;
  const auto memory = measure_memory(plan);
  info.model_bytes = memory.constants;
  info.session_bytes = memory.states + memory.slots + memory.staging;
  return info;
}

}  // namespace

GeneratorImpl::GeneratorImpl(const Model& model, const Session& session, const LanguageModelInfo& what,
                             const LanguageModelOutputs& places)
    : info(what),
      model_(model),
      places_(places),
      sequence_(what.context_length, what.vocabulary),
      can_rewind_(std::ranges::find(Internals::of(model)->resources->by_rows(), 0) ==
                  Internals::of(model)->resources->by_rows().end()),
      outputs_(model.outputs().size()),
      session_(session) {
  if (places.candidates == LanguageModelOutputs::kNone) return;
  const auto count = static_cast<std::size_t>(model.outputs()[places.candidates].shape[0]);
  values_.resize(count);
  ids_.resize(count);
  candidates_.resize(count);
}

Result<std::shared_ptr<GeneratorImpl>> GeneratorImpl::make(const Model& model) {
  TRY_ASSIGN(auto session, model.session());
  LanguageModelOutputs places;
  TRY_ASSIGN(const auto info, describe(model, session, places));
  return gpu::make_kept<GeneratorImpl>(model, session, info, places);
}

Result<Turns::Turn> GeneratorImpl::take_turn() {
  TRY(gpu::check_process());
  return turns_.take();
}

Status GeneratorImpl::start(std::span<const std::int32_t> prompt, const GenerateOptions& options) {
  TRY_ASSIGN(const auto turn, take_turn());
  TRY_ASSIGN(auto sampler, generate::Sampler::make(options, info.vocabulary));
  TRY(settle());
  if (!can_rewind_) {
    const auto known = sequence_.tokens().first(static_cast<std::size_t>(sequence_.computed()));
    const bool goes_on =
        !is_spoiled_ && prompt.size() > known.size() && std::ranges::equal(known, prompt.first(known.size()));
    if (!goes_on) TRY(sequence_.rewind(0));
  }
  TRY_ASSIGN(const auto kept, sequence_.begin(prompt, {options.stop_ids, options.max_tokens}));
  sampler_ = std::move(sampler);
  is_cancelled_ = false;
  // Who cannot go back cannot compute a token once more for its logits.
  wants_logits_ = places_.candidates == LanguageModelOutputs::kNone || !can_rewind_;
  stats_ = {.prompt_tokens = sequence_.prompt_tokens(), .cached_tokens = kept, .inference_start_ms = now_ms()};
  has_logits_ = false;
  if (can_rewind_ || kept == 0) TRY(session_.rewind(kept));
  is_spoiled_ = false;
  return {};
}

Result<bool> GeneratorImpl::prefill() {
  TRY_ASSIGN(const auto turn, take_turn());
  if (!sampler_) return not_started();
  const auto left = static_cast<std::int64_t>(sequence_.tokens().size()) - sequence_.computed();
  if (sequence_.finish() != Finish::none || left <= info.chunk) return false;
  auto is_some = compute_chunk();
  if (!is_some && is_some.error().code == ErrorCode::cancelled) sequence_.end(Finish::cancelled);
  return is_some;
}

Result<std::optional<GeneratedToken>> GeneratorImpl::next(std::span<const std::uint32_t> allowed) {
  TRY_ASSIGN(const auto turn, take_turn());
  if (!sampler_) return not_started();
  if (sequence_.finish() != Finish::none) return std::nullopt;
  auto token = step(allowed);
  if (!token && token.error().code == ErrorCode::cancelled) sequence_.end(Finish::cancelled);
  return token;
}

Result<std::optional<GeneratedToken>> GeneratorImpl::step(std::span<const std::uint32_t> allowed) {
  TRY(compute());
  const double computed = now_ms();
  if (stats_.prompt_eval_end_ms == 0) stats_.prompt_eval_end_ms = computed;
  TRY_ASSIGN(const auto choice, choose(allowed));
  // Whatever needs memory comes before the token is taken: one that failed for it is chosen again.
  GeneratedToken token{.id = choice.id, .logprob = choice.logprob, .top = {choice.top.begin(), choice.top.end()}};
  TRY_ASSIGN(const auto finish, sequence_.push(choice.id));
  const double chosen = now_ms();
  stats_.aggregate_sampling_time_ms += chosen - computed;
  if (stats_.first_token_ms == 0) stats_.first_token_ms = chosen;
  stats_.inference_end_ms = chosen;
  if (finish == Finish::stop_id) return std::nullopt;
  // The GPU works on the next token while the caller looks at this one. If that cannot begin, the next call says why;
  // if it shall not, this token was the last.
  if (finish == Finish::none && !is_cancelled_) {
    const auto ahead = guarded([&] { return submit(sequence_.next(info.chunk), sequence_.computed(), true); });
    if (!ahead && ahead.error().code == ErrorCode::cancelled) sequence_.end(Finish::cancelled);
  }
  return token;
}

Status GeneratorImpl::stop() {
  TRY_ASSIGN(const auto turn, take_turn());
  sequence_.end(Finish::stop_text);
  return {};
}

void GeneratorImpl::cancel() noexcept {
  is_cancelled_ = true;
  session_.cancel();
}

Status GeneratorImpl::settle() {
  if (in_flight_ == 0) return {};
  auto status = wait();
  if (!status && status.error().code == ErrorCode::device_lost) return status;
  return {};
}

Status GeneratorImpl::check_whole() const {
  if (!is_spoiled_) return {};
  return fail(ErrorCode::invalid_argument,
              "a call failed and left the state of this session incomplete: start with a prompt, or rewind to 0");
}

Status GeneratorImpl::compute() {
  while (true) {
    TRY_ASSIGN(const bool is_some, compute_chunk());
    if (!is_some) return {};
  }
}

Result<bool> GeneratorImpl::compute_chunk() {
  if (in_flight_ == 0) {
    TRY(check_cancelled());
    TRY(check_whole());
    const auto tokens = sequence_.next(info.chunk);
    if (tokens.empty()) return false;
    const auto end = sequence_.computed() + static_cast<std::int64_t>(tokens.size());
    const bool is_last = end == static_cast<std::int64_t>(sequence_.tokens().size());
    TRY(submit(tokens, sequence_.computed(), is_last));
  }
  TRY(wait());
  return true;
}

Status GeneratorImpl::check_cancelled() const {
  if (!is_cancelled_) return {};
  return fail(ErrorCode::cancelled, "the generation was cancelled");
}

Status GeneratorImpl::submit(std::span<const std::int32_t> tokens, std::int64_t position, bool wants_results) {
  TRY(check_cancelled());
  stats_.model_execution_start_ms = now_ms();
  input_.assign(tokens.begin(), tokens.end());
  position_ = position;
  const auto count = static_cast<std::int64_t>(tokens.size());
  const std::array inputs = {HostTensor{.dtype = DType::i64, .shape = {1, count}, .data = input_.data()},
                             HostTensor{.dtype = DType::i64, .shape = {1}, .data = &position_}};
  std::ranges::fill(outputs_, HostOutput{});
  has_logits_ = false;
  if (wants_results && wants_logits_) {
    const auto rows = static_cast<std::size_t>(places_.has_rows ? count : 1);
    logits_.resize(rows * static_cast<std::size_t>(info.vocabulary));
    outputs_[places_.logits] = {DType::f32, logits_.data(), logits_.size() * sizeof(float)};
  } else if (wants_results) {
    outputs_[places_.candidates] = {DType::f32, values_.data(), values_.size() * sizeof(float)};
    outputs_[places_.candidates + 1] = {DType::i32, ids_.data(), ids_.size() * sizeof(std::int32_t)};
    outputs_[places_.candidates + 2] = {DType::f32, &total_, sizeof(float)};
  }
  TRY(session_.set_inputs(inputs));
  if (is_cancelled_) session_.cancel();  // it may have come before there was a call to cancel
  // Of a cache, a call that fails changes only rows that are not in use.
  is_spoiled_ = !can_rewind_;
  TRY(session_.submit(outputs_));
  in_flight_ = count;
  ++stats_.calls;
  stats_.dispatches += std::ssize(Internals::of(session_)->executor->stepper().dispatches());
  stats_.aggregate_model_execution_time_ms += now_ms() - stats_.model_execution_start_ms;
  return {};
}

Status GeneratorImpl::wait() {
  const auto count = std::exchange(in_flight_, 0);
  TRY(take_results());
  sequence_.advance(count);
  return {};
}

Status GeneratorImpl::take_results() {
  const double start = now_ms();
  TRY(session_.wait());
  is_spoiled_ = false;
  has_logits_ = outputs_[places_.logits].data != nullptr;
  stats_.model_execution_end_ms = now_ms();
  stats_.aggregate_model_execution_time_ms += stats_.model_execution_end_ms - start;
  return {};
}

std::span<const float> GeneratorImpl::last_logits() const {
  return std::span(logits_).last(static_cast<std::size_t>(info.vocabulary));
}

Result<generate::Choice> GeneratorImpl::choose(std::span<const std::uint32_t> allowed) {
  const gpu::Phase phase(Internals::of(session_)->executor->model().device()->tracer(), "choose token");
  const generate::Moment moment{
      .tokens = sequence_.tokens(), .step = static_cast<std::uint64_t>(sequence_.generated()), .allowed = allowed};
  if (!wants_logits_) {
    for (std::size_t i = 0; i < candidates_.size(); ++i) candidates_[i] = {ids_[i], values_[i]};
    TRY_ASSIGN(const auto choice, sampler_->from_candidates(candidates_, total_, moment));
    if (!choice.needs_all_logits) return choice;
    wants_logits_ = true;  // what did not do once will likely not do again
  }
  if (!has_logits_) {
    // The last token is computed once more, for its logits.
    TRY(submit(sequence_.tokens().last(1), sequence_.computed() - 1, true));
    in_flight_ = 0;
    TRY(take_results());
  }
  return sampler_->from_logits(last_logits(), moment);
}

Result<GenerateStats> GeneratorImpl::stats() {
  TRY_ASSIGN(const auto turn, take_turn());
  GenerateStats stats = stats_;
  const auto& loaded = *Internals::of(model_);
  stats.model_load_start_ms = loaded.load_start_ms;
  stats.model_load_end_ms = loaded.load_end_ms;
  stats.finish = sequence_.finish();
  stats.generated_tokens = sequence_.generated();
  return stats;
}

Result<std::vector<std::int32_t>> GeneratorImpl::tokens() {
  TRY_ASSIGN(const auto turn, take_turn());
  const auto computed = sequence_.tokens().first(static_cast<std::size_t>(sequence_.computed()));
  return std::vector(computed.begin(), computed.end());
}

Status GeneratorImpl::rewind(std::int64_t count) {
  TRY_ASSIGN(const auto turn, take_turn());
  TRY(settle());
  generate::Sequence rewound = sequence_;
  TRY(rewound.rewind(count));
  // A state that replacing left incomplete can be cleared, but not rewound.
  TRY(count == 0 ? session_.reset() : session_.rewind(count));
  is_spoiled_ = false;
  sequence_ = std::move(rewound);
  return {};
}

Result<std::shared_ptr<GeneratorImpl>> GeneratorImpl::fork() {
  TRY_ASSIGN(const auto turn, take_turn());
  TRY(settle());
  TRY(check_whole());
  TRY_ASSIGN(auto session, session_.fork());
  auto other = gpu::make_kept<GeneratorImpl>(model_, session, info, places_);
  other->sequence_ = sequence_;
  other->sequence_.end(Finish::cancelled);  // a generation begins with start()
  return other;
}

Status GeneratorImpl::save(const std::string& path) {
  TRY_ASSIGN(const auto turn, take_turn());
  TRY(settle());
  TRY(check_whole());
  const auto tokens = sequence_.tokens().first(static_cast<std::size_t>(sequence_.computed()));
  return Internals::of(session_)->save(path, std::as_bytes(tokens));
}

Status GeneratorImpl::restore(const std::string& path) {
  TRY_ASSIGN(const auto turn, take_turn());
  TRY(settle());
  TRY_ASSIGN(const auto states, session_.states());
  generate::Sequence restored(info.context_length, info.vocabulary);
  const auto accept = [&](const SavedState& saved) -> Status {
    std::vector<std::int32_t> tokens(saved.note.size() / sizeof(std::int32_t));
    std::memcpy(tokens.data(), saved.note.data(), tokens.size() * sizeof(std::int32_t));
    const auto count = static_cast<std::int64_t>(tokens.size());
    bool fits = true;
    for (std::size_t i = 0; i < states.size(); ++i) fits &= !states[i].row_axis || saved.rows[i] == count;
    if (!fits || saved.note.size() % sizeof(std::int32_t) != 0) {
      return fail(ErrorCode::invalid_argument, "'{}' was not saved by a generator: it has no token for each row", path);
    }
    if (count == 0) return {};
    TRY(restored.begin(tokens));
    restored.advance(count);
    return {};
  };
  TRY(Internals::of(session_)->restore(path, accept));
  is_spoiled_ = false;
  sequence_ = std::move(restored);
  sequence_.end(Finish::cancelled);  // a generation begins with start()
  return {};
}

}  // namespace nibble
