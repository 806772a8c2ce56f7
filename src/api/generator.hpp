// The loop of text generation around a session: what to compute next is the Sequence's, what to choose the Sampler's.
#pragma once

#include <atomic>

#include "api/session.hpp"
#include "generate/sampler.hpp"
#include "generate/sequence.hpp"
#include "nibble/generate.hpp"

namespace nibble {

/// Where a language model's results are among its outputs.
struct LanguageModelOutputs {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t logits = 0;
  std::size_t candidates = kNone;  ///< the first of three: logits, ids and the total
  bool has_rows = false;           ///< logits of every token, not of the last alone
};

struct GeneratorImpl {
  static Result<std::shared_ptr<GeneratorImpl>> make(const Model& model);
  /// What make() gives is kept in a forked child: see gpu/process.hpp.
  GeneratorImpl(const Model& model, const Session& session, const LanguageModelInfo& what,
                const LanguageModelOutputs& places);

  Status start(std::span<const std::int32_t> prompt, const GenerateOptions& options);
  Result<bool> prefill();
  Result<std::optional<GeneratedToken>> next(std::span<const std::uint32_t> allowed);
  Status stop();
  void cancel() noexcept;
  Result<GenerateStats> stats();
  Result<std::vector<std::int32_t>> tokens();
  Status rewind(std::int64_t count);
  Result<std::shared_ptr<GeneratorImpl>> fork();
  Status save(const std::string& path);
  Status restore(const std::string& path);

  LanguageModelInfo info;

 private:
  /// Begins a call, or says that another thread is in one.
  Result<Turns::Turn> take_turn();
  /// Waits for a step that nobody waited for. Whether it was done does not matter.
  Status settle();
  Result<std::optional<GeneratedToken>> step(std::span<const std::uint32_t> allowed);
  /// Computes all tokens that are not computed yet.
  Status compute();
  /// At most one chunk of them; false: there was none.
  Result<bool> compute_chunk();
  Status check_cancelled() const;
  Status check_whole() const;
  Status submit(std::span<const std::int32_t> tokens, std::int64_t position, bool wants_results);
  Status wait();
  Status take_results();
  Result<generate::Choice> choose(std::span<const std::uint32_t> allowed);
  std::span<const float> last_logits() const;

  Model model_;
  LanguageModelOutputs places_;
  generate::Sequence sequence_;
  bool can_rewind_ = true;   ///< all state is caches, of which rows can be taken back
  bool is_spoiled_ = false;  ///< it is not, and a call that changes it has not succeeded
  std::optional<generate::Sampler> sampler_;
  bool wants_logits_ = false;  ///< all of them, because candidates do not decide
  bool has_logits_ = false;    ///< the last call gave them
  std::atomic<bool> is_cancelled_ = false;
  Turns turns_;
  GenerateStats stats_;

  // What a call reads and writes, so it outlives the session.
  std::vector<std::int64_t> input_;
  std::int64_t position_ = 0;
  std::vector<float> logits_;
  std::vector<float> values_;
  std::vector<std::int32_t> ids_;
  std::vector<generate::Candidate> candidates_;
  float total_ = 0;
  std::vector<HostOutput> outputs_;
  Session session_;
  std::int64_t in_flight_ = 0;  ///< tokens of the call that was submitted
};

}  // namespace nibble
