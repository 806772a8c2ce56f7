#include "web_text/exports.hpp"

#include <cstdlib>
#include <utility>

#ifdef _LIBCPP_VERSION
/// The last words of the C++ library, such as that there is no memory, would take all of printf.
[[noreturn]] void std::__libcpp_verbose_abort(const char* /*text*/, ...) noexcept { __builtin_trap(); }
#endif

namespace nibble::web_text {
namespace {

void remember(Error error) { generate::LastError::get().remember(std::move(error)); }

generate::Moment moment_of(const generate::Sequence& sequence, std::span<const std::uint32_t> allowed) {
  return {.tokens = sequence.tokens(), .step = static_cast<std::uint64_t>(sequence.generated()), .allowed = allowed};
}

const Chosen* give(Chooser& chooser, Result<generate::Choice> choice) {
  if (!choice) {
    remember(std::move(choice).error());
    return nullptr;
  }
  chooser.chosen = {.needs_all_logits = choice->needs_all_logits ? 1U : 0U,
                    .id = choice->id,
                    .logprob = choice->logprob,
                    .top = choice->top.data(),
                    .top_count = static_cast<std::uint32_t>(choice->top.size())};
  return &chooser.chosen;
}

}  // namespace

void* nibble_text_alloc(std::uint32_t bytes) noexcept { return std::malloc(bytes); }
void nibble_text_release(void* memory) noexcept { std::free(memory); }
const generate::Failure* nibble_text_error() noexcept { return generate::LastError::get().failure(); }

Chooser* nibble_sampler_new(std::int64_t vocabulary, double temperature, std::int64_t top_k, double top_p, double min_p,
                            double repetition_penalty, std::int64_t repetition_window, double presence_penalty,
                            double frequency_penalty, std::uint64_t seed, std::uint32_t logprobs,
                            std::int64_t top_logprobs, const TokenBias* biases, std::uint32_t bias_count) noexcept {
  auto made = generate::Sampler::make({.temperature = temperature,
                                       .top_k = top_k,
                                       .top_p = top_p,
                                       .min_p = min_p,
                                       .repetition_penalty = repetition_penalty,
                                       .repetition_window = repetition_window,
                                       .presence_penalty = presence_penalty,
                                       .frequency_penalty = frequency_penalty,
                                       .seed = seed,
                                       .biases = {biases, biases + bias_count},
                                       .logprobs = logprobs != 0,
                                       .top_logprobs = top_logprobs},
                                      vocabulary);
  if (made) return new Chooser{std::move(*made), {}, {}};
  remember(std::move(made).error());
  return nullptr;
}

void nibble_sampler_free(Chooser* chooser) noexcept { delete chooser; }

const Chosen* nibble_sampler_from_logits(Chooser* chooser, const generate::Sequence* sequence, const float* logits,
                                         std::uint32_t count, const std::uint32_t* allowed,
                                         std::uint32_t words) noexcept {
  return give(*chooser, chooser->sampler.from_logits({logits, count}, moment_of(*sequence, {allowed, words})));
}

const Chosen* nibble_sampler_from_candidates(Chooser* chooser, const generate::Sequence* sequence, const float* logits,
                                             const std::int32_t* ids, std::uint32_t count, float total,
                                             const std::uint32_t* allowed, std::uint32_t words) noexcept {
  chooser->candidates.clear();
  for (std::uint32_t i = 0; i < count; ++i) chooser->candidates.push_back({ids[i], logits[i]});
  const auto moment = moment_of(*sequence, {allowed, words});
  return give(*chooser, chooser->sampler.from_candidates(chooser->candidates, total, moment));
}

generate::Sequence* nibble_sequence_new(std::int64_t context, std::int64_t vocabulary) noexcept {
  return new generate::Sequence(context, vocabulary);
}

generate::Sequence* nibble_sequence_copy(const generate::Sequence* sequence) noexcept {
  return new generate::Sequence(*sequence);
}

void nibble_sequence_free(generate::Sequence* sequence) noexcept { delete sequence; }

std::int32_t nibble_sequence_begin(generate::Sequence* sequence, const std::int32_t* prompt, std::uint32_t count,
                                   const std::int32_t* stop_ids, std::uint32_t stop_count,
                                   std::int64_t max_tokens) noexcept {
  const auto kept =
      sequence->begin({prompt, count}, {.stop_ids = {stop_ids, stop_ids + stop_count}, .max_tokens = max_tokens});
  if (kept) return static_cast<std::int32_t>(*kept);
  remember(kept.error());
  return -1;
}

void nibble_sequence_advance(generate::Sequence* sequence, std::uint32_t count) noexcept { sequence->advance(count); }

std::int32_t nibble_sequence_push(generate::Sequence* sequence, std::int32_t token) noexcept {
  const auto finish = sequence->push(token);
  if (finish) return static_cast<std::int32_t>(*finish);
  remember(finish.error());
  return -1;
}

void nibble_sequence_end(generate::Sequence* sequence, std::uint32_t reason) noexcept {
  sequence->end(static_cast<Finish>(reason));
}

std::int32_t nibble_sequence_rewind(generate::Sequence* sequence, std::int64_t position) noexcept {
  const auto status = sequence->rewind(position);
  if (status) return 1;
  remember(status.error());
  return -1;
}

const std::int32_t* nibble_sequence_tokens(const generate::Sequence* sequence) noexcept {
  return sequence->tokens().data();
}

std::uint32_t nibble_sequence_size(const generate::Sequence* sequence) noexcept {
  return static_cast<std::uint32_t>(sequence->tokens().size());
}

std::uint32_t nibble_sequence_computed(const generate::Sequence* sequence) noexcept {
  return static_cast<std::uint32_t>(sequence->computed());
}

std::uint32_t nibble_sequence_generated(const generate::Sequence* sequence) noexcept {
  return static_cast<std::uint32_t>(sequence->generated());
}

std::uint32_t nibble_sequence_finish(const generate::Sequence* sequence) noexcept {
  return static_cast<std::uint32_t>(sequence->finish());
}

Writer* nibble_stream_new(const StopText* stops, std::uint32_t count) noexcept {
  std::vector<std::string> texts;
  texts.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) texts.emplace_back(stops[i].text, stops[i].bytes);
  auto stream = generate::TextStream::make(std::move(texts));
  if (stream) return new Writer{std::move(*stream), {}};
  remember(std::move(stream).error());
  return nullptr;
}

void nibble_stream_free(Writer* writer) noexcept { delete writer; }

std::uint32_t nibble_stream_push(Writer* writer, const char* bytes, std::uint32_t count) noexcept {
  writer->out = writer->stream.push({bytes, count});
  return static_cast<std::uint32_t>(writer->out.size());
}

std::uint32_t nibble_stream_finish(Writer* writer) noexcept {
  writer->out = writer->stream.finish();
  return static_cast<std::uint32_t>(writer->out.size());
}

const char* nibble_stream_text(const Writer* writer) noexcept { return writer->out.data(); }

std::int32_t nibble_stream_stop(const Writer* writer) noexcept {
  const auto stopped = writer->stream.stopped();
  return stopped ? static_cast<std::int32_t>(*stopped) : -1;
}

}  // namespace nibble::web_text
