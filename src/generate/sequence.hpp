// The tokens that a session holds, and what a generation does next. Computes nothing itself.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "nibble/sampling.hpp"

namespace nibble::generate {

/// Which tokens end a generation, and after how many it ends.
struct Ends {
  std::vector<std::int32_t> stop_ids = {};
  std::int64_t max_tokens = 0;  ///< 0: until the context is full
};

/// A loop is: begin(); until next() is empty: compute it, advance(); choose a token, push() it, until finish().
/// A copy is a fork. What fails leaves everything as it was.
class Sequence {
 public:
  Sequence(std::int64_t context, std::int64_t vocabulary) : context_(context), vocabulary_(vocabulary) {}

  /// Starts a generation. Gives how many leading tokens of the prompt are computed already: rewind the caches to there.
  /// The last token of a prompt is always computed again, because its logits are needed.
  Result<std::int64_t> begin(std::span<const std::int32_t> prompt, Ends ends = {});

  /// The tokens to compute next, at most so many, at position computed(). Empty: there are logits to choose from.
  std::span<const std::int32_t> next(std::int64_t most) const;
  /// The first `count` of them are computed. More than there are count as those.
  void advance(std::int64_t count);

  /// Appends a chosen token. An error if the generation has ended, if tokens are still to be computed, or if it is no
  /// token of the vocabulary.
  Result<Finish> push(std::int32_t token);
  /// Ends the generation for a reason that only the caller sees: stop_text or cancelled. A token that also was the last
  /// for its number has ended it by its text.
  void end(Finish reason);

  /// Forgets all tokens from this position on, and ends the generation if it takes one of its tokens away. An error
  /// behind the computed ones.
  Status rewind(std::int64_t position);

  std::span<const std::int32_t> tokens() const { return tokens_; }  ///< the prompt and what was chosen
  std::int64_t computed() const { return computed_; }
  std::int64_t prompt_tokens() const { return prompt_; }
  std::int64_t generated() const { return size() - prompt_; }
  /// How many more tokens the context holds.
  std::int64_t room() const { return context_ - size(); }
  Finish finish() const { return finish_; }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  bool is_token(std::int64_t token) const { return token >= 0 && token < vocabulary_; }
  Finish limit() const;

  std::int64_t context_;
  std::int64_t vocabulary_;
  std::vector<std::int32_t> tokens_;
  std::int64_t computed_ = 0;
  std::int64_t prompt_ = 0;
  Ends ends_;
  Finish finish_ = Finish::none;
};

}  // namespace nibble::generate
