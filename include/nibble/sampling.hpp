// How the next token is chosen, and why a generation ends.
//
// What happens to the logits, in this order:
//   1. `biases` are added.
//   2. `repetition_penalty` divides logits above zero and multiplies the others, once for each distinct recent token.
//   3. `presence_penalty`, and `frequency_penalty` times the count, are subtracted, for the same tokens.
//   4. Tokens that are not allowed are left out, and those whose logit is -infinity.
//   5. Temperature 0 takes the largest logit, of equal ones that with the smallest id. Otherwise:
//   6. `top_k` keeps so many of the largest logits; of equal ones those with smaller ids.
//   7. `top_p` keeps the fewest of the largest whose probabilities reach it. Here and in the next step, probabilities
//      are those at temperature 1, of what is left.
//   8. `min_p` keeps those that are at least so likely as this times the likeliest.
//   9. The temperature divides the logits, and one token is drawn, by the seed and the number of the step.
#pragma once

#include <cstdint>
#include <vector>

#include "nibble/types.hpp"

namespace nibble {

struct TokenBias {
  std::int32_t id = 0;
  double bias = 0;
};

/// A token and the natural logarithm of the probability that the model gives it.
struct Logprob {
  std::int32_t id = 0;
  double logprob = 0;
};

struct Sampling {
  double temperature = 0;
  std::int64_t top_k = 0;  ///< 0: all
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  std::int64_t repetition_window = 64;  ///< how many of the last tokens the three penalties see; 0: all
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::uint64_t seed = 0;
  std::vector<TokenBias> biases = {};  ///< those of one id add up
  bool logprobs = false;               ///< wants the log-probability of the chosen token
  std::int64_t top_logprobs = 0;       ///< of how many of the likeliest tokens, too
};

/// Why a generation ended.
enum class Finish : std::uint8_t {
  none,       ///< it goes on
  stop_id,    ///< a token that ends it was chosen
  stop_text,  ///< its text has ended, by a stop string or by what was wanted of it
  length,     ///< as many tokens as wanted
  context,    ///< the context is full
  cancelled,
};

NIBBLE_API std::string_view to_string(Finish reason);

}  // namespace nibble
