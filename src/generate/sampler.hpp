// Chooses the next token. A pure function of the model's logits, the settings, the recent tokens and a step's number:
// the same tokens come out natively and in WebAssembly, whatever the compiler.
// nibble/sampling.hpp says what happens to the logits, in which order. The draw walks over what is left in the order of
// ids, so that two logits that change places by rounding hardly change it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nibble/sampling.hpp"

namespace nibble::generate {

/// A token with its logit, as the model gives it.
struct Candidate {
  std::int32_t id = 0;
  float logit = 0;
};

/// One sentence about the first value that cannot be.
Status check(const Sampling& sampling, std::int64_t vocabulary);

/// What else a choice depends on. The spans are only read during the call.
struct Moment {
  std::span<const std::int32_t> tokens = {};    ///< the prompt and what was generated so far
  std::uint64_t step = 0;                       ///< how many tokens were generated so far
  std::span<const std::uint32_t> allowed = {};  ///< bit i % 32 of word i / 32: token i is allowed; empty: all are
};

struct Choice {
  /// The candidates do not decide it. Ask again, with all logits.
  bool needs_all_logits = false;
  std::int32_t id = 0;
  /// Natural logarithms of the model's own probabilities: at temperature 1, without bias, penalty or mask. Only if they
  /// are wanted. Those from candidates have the precision of their total.
  double logprob = 0;
  std::span<const Logprob> top = {};  ///< until the sampler is used again
};

/// One at a time may use it: it keeps its working memory.
class Sampler {
 public:
  static Result<Sampler> make(Sampling sampling, std::int64_t vocabulary);

  const Sampling& sampling() const { return sampling_; }

  /// Chooses from the logits of all tokens.
  Result<Choice> from_logits(std::span<const float> logits, const Moment& moment);

  /// Chooses from the tokens with the largest logits, sorted by logit (largest first) and then by id, and the sum of
  /// e^(logit - largest) over all tokens. The sum may be off by kTolerance of itself. Gives what from_logits() would
  /// give, or says that it needs all logits. NaN in the sum or in a logit does so.
  Result<Choice> from_candidates(std::span<const Candidate> top, float total, const Moment& moment);

  static constexpr double kTolerance = 1.0 / (1 << 16);

 private:
  struct Entry {
    double logit = 0;
    std::int32_t id = 0;
  };
  /// What bias and penalties do to a token.
  struct Change {
    std::int32_t id = 0;
    std::int64_t count = 0;  ///< in the window
    double bias = 0;
    bool is_candidate = false;
  };
  /// A number between two.
  struct Interval {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
  };
  static constexpr std::size_t kUnknown = static_cast<std::size_t>(-1);

  Sampler(Sampling sampling, std::int64_t vocabulary);

  static bool ranks_before(const Entry& a, const Entry& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  }
  bool is_allowed(const Moment& moment, std::int32_t id) const;
  double changed(double logit, const Change& change) const;
  Change& change_of(std::int32_t id);
  void find_changes(const Moment& moment);
  void add_entry(const Moment& moment, std::int32_t id, float logit);

  std::size_t sure_entries(const Moment& moment, const Candidate& last) const;
  Interval total_of(const Moment& moment, std::span<const Candidate> top, float total, std::size_t sure) const;
  std::size_t cut(std::span<const Entry> sorted, bool is_all, Interval total) const;
  std::span<Entry> truncate_all();
  std::int32_t draw(std::span<Entry> kept, double largest, std::uint64_t step);

  Sampling sampling_;
  std::int64_t vocabulary_ = 0;
  std::vector<Change> changes_;
  std::vector<std::uint32_t> places_;  ///< per token: its place in changes_ plus one, or 0
  std::vector<Entry> entries_;         ///< what can be chosen
  std::vector<Entry> sorted_;
  std::vector<std::uint64_t> weights_;
  std::vector<Logprob> top_;
};

}  // namespace nibble::generate
