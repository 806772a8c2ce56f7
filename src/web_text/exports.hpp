// The room `generate` as a WebAssembly module of its own, which only pages load that generate text. Objects are known
// by their addresses, and belong to whoever made them. A call that fails gives null or a negative number, and
// nibble_text_error() tells why. What a call gives stays readable until the next call on the same object. Addresses and
// lengths must be right; all else is checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "generate/last_error.hpp"
#include "generate/sampler.hpp"
#include "generate/sequence.hpp"
#include "generate/text_stream.hpp"

#ifdef __wasm32__
#define NIBBLE_TEXT_EXPORT(name) __attribute__((export_name(#name)))
#else
#define NIBBLE_TEXT_EXPORT(name)
#endif

namespace nibble::web_text {

/// TypeScript reads these records by their offsets, which are those of wasm32: see web/src/generate/text_module.ts.
struct Chosen {
  std::uint32_t needs_all_logits = 0;
  std::int32_t id = 0;
  double logprob = 0;
  const Logprob* top = nullptr;
  std::uint32_t top_count = 0;
};

struct StopText {
  const char* text = nullptr;
  std::uint32_t bytes = 0;
};

#ifdef __wasm32__
static_assert(offsetof(Chosen, logprob) == 8 && offsetof(Chosen, top) == 16 && sizeof(Chosen) == 24);
static_assert(offsetof(Logprob, logprob) == 8 && sizeof(Logprob) == 16 && sizeof(StopText) == 8);
static_assert(offsetof(TokenBias, bias) == 8 && sizeof(TokenBias) == 16);
#endif

struct Chooser {
  generate::Sampler sampler;
  std::vector<generate::Candidate> candidates;
  Chosen chosen;
};

struct Writer {
  generate::TextStream stream;
  std::string_view out;
};

NIBBLE_TEXT_EXPORT(nibble_text_alloc) void* nibble_text_alloc(std::uint32_t bytes) noexcept;
NIBBLE_TEXT_EXPORT(nibble_text_release) void nibble_text_release(void* memory) noexcept;
NIBBLE_TEXT_EXPORT(nibble_text_error) const generate::Failure* nibble_text_error() noexcept;

NIBBLE_TEXT_EXPORT(nibble_sampler_new)
Chooser* nibble_sampler_new(std::int64_t vocabulary, double temperature, std::int64_t top_k, double top_p, double min_p,
                            double repetition_penalty, std::int64_t repetition_window, double presence_penalty,
                            double frequency_penalty, std::uint64_t seed, std::uint32_t logprobs,
                            std::int64_t top_logprobs, const TokenBias* biases, std::uint32_t bias_count) noexcept;
NIBBLE_TEXT_EXPORT(nibble_sampler_free) void nibble_sampler_free(Chooser* chooser) noexcept;
/// The next token of a sequence. `allowed` has a bit for each token; no words: all are.
NIBBLE_TEXT_EXPORT(nibble_sampler_from_logits)
const Chosen* nibble_sampler_from_logits(Chooser* chooser, const generate::Sequence* sequence, const float* logits,
                                         std::uint32_t count, const std::uint32_t* allowed,
                                         std::uint32_t words) noexcept;
NIBBLE_TEXT_EXPORT(nibble_sampler_from_candidates)
const Chosen* nibble_sampler_from_candidates(Chooser* chooser, const generate::Sequence* sequence, const float* logits,
                                             const std::int32_t* ids, std::uint32_t count, float total,
                                             const std::uint32_t* allowed, std::uint32_t words) noexcept;

NIBBLE_TEXT_EXPORT(nibble_sequence_new)
generate::Sequence* nibble_sequence_new(std::int64_t context, std::int64_t vocabulary) noexcept;
NIBBLE_TEXT_EXPORT(nibble_sequence_copy)
generate::Sequence* nibble_sequence_copy(const generate::Sequence* sequence) noexcept;
NIBBLE_TEXT_EXPORT(nibble_sequence_free) void nibble_sequence_free(generate::Sequence* sequence) noexcept;
NIBBLE_TEXT_EXPORT(nibble_sequence_begin)
std::int32_t nibble_sequence_begin(generate::Sequence* sequence, const std::int32_t* prompt, std::uint32_t count,
                                   const std::int32_t* stop_ids, std::uint32_t stop_count,
                                   std::int64_t max_tokens) noexcept;
NIBBLE_TEXT_EXPORT(nibble_sequence_advance)
void nibble_sequence_advance(generate::Sequence* sequence, std::uint32_t count) noexcept;
/// A Finish, or -1.
NIBBLE_TEXT_EXPORT(nibble_sequence_push)
std::int32_t nibble_sequence_push(generate::Sequence* sequence, std::int32_t token) noexcept;
NIBBLE_TEXT_EXPORT(nibble_sequence_end)
void nibble_sequence_end(generate::Sequence* sequence, std::uint32_t reason) noexcept;
NIBBLE_TEXT_EXPORT(nibble_sequence_rewind)
std::int32_t nibble_sequence_rewind(generate::Sequence* sequence, std::int64_t position) noexcept;
NIBBLE_TEXT_EXPORT(nibble_sequence_tokens)
const std::int32_t* nibble_sequence_tokens(const generate::Sequence* sequence) noexcept;
NIBBLE_TEXT_EXPORT(nibble_sequence_size)
std::uint32_t nibble_sequence_size(const generate::Sequence* sequence) noexcept;
NIBBLE_TEXT_EXPORT(nibble_sequence_computed)
std::uint32_t nibble_sequence_computed(const generate::Sequence* sequence) noexcept;
NIBBLE_TEXT_EXPORT(nibble_sequence_generated)
std::uint32_t nibble_sequence_generated(const generate::Sequence* sequence) noexcept;
NIBBLE_TEXT_EXPORT(nibble_sequence_finish)
std::uint32_t nibble_sequence_finish(const generate::Sequence* sequence) noexcept;

NIBBLE_TEXT_EXPORT(nibble_stream_new) Writer* nibble_stream_new(const StopText* stops, std::uint32_t count) noexcept;
NIBBLE_TEXT_EXPORT(nibble_stream_free) void nibble_stream_free(Writer* writer) noexcept;
/// How many bytes of text there are now, at nibble_stream_text().
NIBBLE_TEXT_EXPORT(nibble_stream_push)
std::uint32_t nibble_stream_push(Writer* writer, const char* bytes, std::uint32_t count) noexcept;
NIBBLE_TEXT_EXPORT(nibble_stream_finish) std::uint32_t nibble_stream_finish(Writer* writer) noexcept;
NIBBLE_TEXT_EXPORT(nibble_stream_text) const char* nibble_stream_text(const Writer* writer) noexcept;
/// Which stop string ended it, or -1.
NIBBLE_TEXT_EXPORT(nibble_stream_stop) std::int32_t nibble_stream_stop(const Writer* writer) noexcept;

}  // namespace nibble::web_text
