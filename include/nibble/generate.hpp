// Text generation: tokens from a language model, one after the other. Text to tokens and back is the caller's.
#pragma once

#include "nibble/nibble.hpp"
#include "nibble/sampling.hpp"

namespace nibble {

struct GeneratorImpl;

/// How tokens are chosen, and what ends a generation.
struct GenerateOptions : Sampling {
  std::vector<std::int32_t> stop_ids = {};  ///< tokens that end it; they are not handed out
  std::int64_t max_tokens = 0;              ///< 0: until the context is full
};

struct GeneratedToken {
  std::int32_t id = 0;
  double logprob = 0;             ///< if Sampling::logprobs
  std::vector<Logprob> top = {};  ///< the likeliest tokens, if Sampling::top_logprobs
};

/// What a language model can take.
struct LanguageModelInfo {
  std::int64_t vocabulary = 0;
  std::int64_t context_length = 0;  ///< tokens of prompt and answer together
  std::int64_t chunk = 0;           ///< tokens that one call computes at most
  std::uint64_t model_bytes = 0;    ///< on the GPU, shared by all sessions
  std::uint64_t session_bytes = 0;  ///< on the GPU, for each
};

/// Times are those of std::chrono::system_clock in milliseconds, 0 for what has not happened. What ExecuTorch's own
/// statistics have is called as there.
struct GenerateStats {
  Finish finish = Finish::none;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;     ///< of the prompt: were in the session already
  std::int64_t generated_tokens = 0;  ///< with one that ended the generation
  std::int64_t calls = 0;             ///< of the program, for prompt and tokens together
  std::int64_t dispatches = 0;        ///< of these calls
  double model_load_start_ms = 0;
  double model_load_end_ms = 0;
  double inference_start_ms = 0;
  double prompt_eval_end_ms = 0;
  double first_token_ms = 0;
  double inference_end_ms = 0;          ///< the end, or the last token so far
  double model_execution_start_ms = 0;  ///< of the last call
  double model_execution_end_ms = 0;
  double aggregate_sampling_time_ms = 0;
  double aggregate_model_execution_time_ms = 0;  ///< in which the generator handed calls over or waited for them
};

/// Generates tokens with a session of its own, which keeps what it has computed: of a prompt that begins as the tokens
/// that it holds, only the rest is computed. One call at a time; cancel() comes from any thread. A handle, as the
/// others.
class NIBBLE_API Generator {
 public:
  Generator(const Generator&) = default;
  Generator& operator=(const Generator&) = default;

  /// The program takes tokens int64 [1, n] and a position int64 [1], and gives logits float32 [1, vocabulary] or
  /// [1, n, vocabulary]. If it was loaded with Options::candidates, these are read back instead of all logits wherever
  /// they decide.
  static Result<Generator> make(const Model& model);
  const LanguageModelInfo& info() const;

  /// Begins a generation, and ends the last one. Computes nothing yet. A prompt that is empty, longer than the context
  /// or no tokens is an error.
  Status start(std::span<const std::int32_t> prompt, const GenerateOptions& options);
  /// Computes a chunk of the prompt, if there is more than one left. False: the rest is for next(). So whoever has
  /// several generators can let each of them compute one chunk or one token in its turn.
  Result<bool> prefill();
  /// The next token, or none at the end. What is left of the prompt is computed in chunks by the first call. When it
  /// returns, the GPU works on the token after this one. `allowed`: bit i % 32 of word i / 32 says whether token i may
  /// come; empty: all.
  Result<std::optional<GeneratedToken>> next(std::span<const std::uint32_t> allowed = {});
  /// Ends the generation, if it goes on, for what its text says: a stop string, or all that was wanted.
  Status stop();
  /// Lets the generation end with the error `cancelled`, within a step or a chunk of the prompt.
  void cancel() noexcept;
  Result<GenerateStats> stats() const;

  /// The tokens that the session has computed.
  Result<std::vector<std::int32_t>> tokens() const;
  /// Forgets all but the first `count` tokens, and ends the generation if it loses one.
  Status rewind(std::int64_t count);
  /// A further generator that has computed the same tokens.
  Result<Generator> fork();
  /// Writes tokens and caches to a file, or takes them over from one that the same program wrote.
  Status save(const std::string& path);
  Status restore(const std::string& path);

 private:
  friend struct Internals;
  Generator() = default;
  std::shared_ptr<GeneratorImpl> impl_;
};

}  // namespace nibble
