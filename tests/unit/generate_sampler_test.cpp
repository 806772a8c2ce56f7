#include "generate/sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "generate/arithmetic.hpp"

namespace nibble::generate {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Logits = std::vector<float>;
using Tokens = std::vector<std::int32_t>;

Sampler sampler_of(Sampling sampling, std::size_t vocabulary) {
  return *Sampler::make(std::move(sampling), static_cast<std::int64_t>(vocabulary));
}

std::int32_t choose(const Sampling& sampling, const Logits& logits, const Moment& moment = {}) {
  return sampler_of(sampling, logits.size()).from_logits(logits, moment)->id;
}

std::string error_of(const Sampling& sampling, const Logits& logits, const Moment& moment = {}) {
  const auto choice = sampler_of(sampling, logits.size()).from_logits(logits, moment);
  return choice ? "" : choice.error().message;
}

std::string refusal(const Sampling& sampling) {
  const auto status = check(sampling, 10);
  return status ? "" : status.error().message;
}

template <class T>
bool ranks_before(const T& a, const T& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// What the device gives: exact candidates, and a total in float32.
struct Top {
  std::vector<Candidate> candidates;
  float total = 0;
};

Top top_of(const Logits& logits, std::size_t count) {
  Top top;
  for (std::size_t i = 0; i < logits.size(); ++i) top.candidates.push_back({static_cast<std::int32_t>(i), logits[i]});
  std::ranges::sort(top.candidates, ranks_before<Candidate>);
  double total = 0;
  for (const auto logit : logits) total += std::exp(double{logit} - top.candidates.front().logit);
  top.candidates.resize(std::min(count, logits.size()));
  top.total = static_cast<float>(total);
  return top;
}

/// The steps as the header says them, one after the other, with everything sorted.
std::int32_t plainly(const Sampling& s, const Logits& logits, const Moment& moment) {
  struct Token {
    double logit;
    std::int32_t id;
  };
  std::vector<Token> left;
  const auto window = s.repetition_window == 0 ? moment.tokens.size() : static_cast<std::size_t>(s.repetition_window);
  const auto recent = moment.tokens.last(std::min(window, moment.tokens.size()));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    double logit = logits[i];
    double bias = 0;
    for (const auto& b : s.biases) bias += b.id == id ? b.bias : 0;
    logit += bias;
    if (const auto count = std::ranges::count(recent, id); count > 0) {
      logit = logit > 0 ? logit / s.repetition_penalty : logit * s.repetition_penalty;
      logit -= s.presence_penalty + s.frequency_penalty * static_cast<double>(count);
    }
    const bool allowed = moment.allowed.empty() || (moment.allowed[i / 32] >> (i % 32) & 1) != 0;
    if (allowed && logit > -INFINITY) left.push_back({logit, id});
  }
  std::ranges::sort(left, ranks_before<Token>);
  if (s.temperature == 0) return left.front().id;
  const double largest = left.front().logit;
  if (s.top_k > 0 && left.size() > static_cast<std::size_t>(s.top_k)) left.resize(static_cast<std::size_t>(s.top_k));
  if (s.top_p < 1) {
    std::uint64_t total = 0;
    for (const auto& token : left) total += weight(token.logit, largest);
    const auto wanted = static_cast<std::uint64_t>(s.top_p * static_cast<double>(total));
    std::uint64_t sum = 0;
    std::size_t kept = 0;
    do {
      sum += weight(left[kept++].logit, largest);
    } while (sum < wanted && kept < left.size());
    left.resize(kept);
  }
  std::erase_if(left, [&](const Token& token) {
    return weight(token.logit, largest) < static_cast<std::uint64_t>(s.min_p * static_cast<double>(kOne));
  });
  std::ranges::sort(left, {}, &Token::id);
  std::uint64_t total = 0;
  for (auto& token : left) total += weight((token.logit - largest) / s.temperature, 0);
  auto rest = draw_below(total, s.seed, moment.step);
  for (const auto& token : left) {
    const auto w = weight((token.logit - largest) / s.temperature, 0);
    if (rest < w) return token.id;
    rest -= w;
  }
  return -1;
}

struct Case {
  Sampling sampling;
  Logits logits;
  Tokens tokens;
  std::vector<std::uint32_t> mask;
  std::uint64_t step = 0;

  Moment moment() const { return {.tokens = tokens, .step = step, .allowed = mask}; }
};

Case random_case(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t end) { return random() % end; };
  const auto real = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(below(1000)) / 1000;
  };
  const auto maybe = [&](std::uint64_t of) { return below(of) == 0; };
  Case c;
  const auto vocabulary = maybe(4) ? 1 + below(8) : 1 + below(400);
  const auto spread = real(0.1, 12);
  const bool has_ties = maybe(3);
  for (std::size_t i = 0; i < vocabulary; ++i) {
    auto logit = real(-spread, spread);
    if (has_ties) logit = std::round(logit);
    c.logits.push_back(maybe(40) ? -kInf : static_cast<float>(logit));
  }
  c.logits[below(vocabulary)] = static_cast<float>(spread);
  auto& s = c.sampling;
  s.temperature = maybe(4) ? 0 : real(0.1, 2);
  s.top_k = maybe(2) ? 0 : static_cast<std::int64_t>(1 + below(80));
  s.top_p = maybe(2) ? 1 : real(0, 1);
  s.min_p = maybe(2) ? 0 : real(0, 1);
  s.repetition_penalty = maybe(2) ? 1 : real(0.5, 2);
  s.repetition_window = static_cast<std::int64_t>(below(20));
  s.presence_penalty = maybe(3) ? real(-2, 2) : 0;
  s.frequency_penalty = maybe(3) ? real(-1, 1) : 0;
  s.seed = random();
  for (auto n = maybe(3) ? below(4) : 0; n > 0; --n) {
    s.biases.push_back({static_cast<std::int32_t>(below(vocabulary)), real(-5, 5)});
  }
  for (auto n = below(40); n > 0; --n) c.tokens.push_back(static_cast<std::int32_t>(below(vocabulary)));
  if (maybe(4)) {
    for (std::size_t i = 0; i < vocabulary; i += 32) c.mask.push_back(static_cast<std::uint32_t>(random()));
    // One token at least can be chosen.
    const auto id = static_cast<std::size_t>(std::ranges::max_element(c.logits) - c.logits.begin());
    c.mask[id / 32] |= 1U << (id % 32);
  }
  c.step = below(1000);
  return c;
}

TEST(Sampler, does_the_steps_in_their_order) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 5000; ++i) {
    const auto c = random_case(random);
    ASSERT_EQ(choose(c.sampling, c.logits, c.moment()), plainly(c.sampling, c.logits, c.moment())) << "case " << i;
  }
}

TEST(Sampler, chooses_the_same_from_candidates_as_from_all_logits_or_asks_for_them) {
  std::mt19937_64 random(2);
  int decided = 0;
  for (int i = 0; i < 5000; ++i) {
    const auto c = random_case(random);
    auto top = top_of(c.logits, 1 + random() % 64);
    // As imprecise as a device may be.
    top.total *= static_cast<float>(1 + (static_cast<double>(random() % 201) - 100) / 100 * 0.9 * Sampler::kTolerance);
    auto sampler = sampler_of(c.sampling, c.logits.size());
    const auto choice = sampler.from_candidates(top.candidates, top.total, c.moment());
    ASSERT_TRUE(choice) << choice.error().message;
    if (choice->needs_all_logits) continue;
    ++decided;
    ASSERT_EQ(choice->id, sampler.from_logits(c.logits, c.moment())->id) << "case " << i;
  }
  EXPECT_GT(decided, 2000);
}

TEST(Sampler, candidates_decide_what_they_can) {
  Logits logits(1000);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 7 % 1000) / 20;
  const auto top = top_of(logits, 64);
  const auto decides = [&](const Sampling& s, const Moment& moment = {}) {
    return !sampler_of(s, logits.size()).from_candidates(top.candidates, top.total, moment)->needs_all_logits;
  };
  const auto best = top.candidates.front().id;
  const auto last = top.candidates.back().id;
  const std::int32_t outside = 0;
  const Tokens repeated{best, best, outside};
  EXPECT_TRUE(decides({}));
  EXPECT_FALSE(decides({.temperature = 1}));
  EXPECT_TRUE(decides({.temperature = 1, .top_k = 64}));
  EXPECT_FALSE(decides({.temperature = 1, .top_k = 65}));
  EXPECT_TRUE(decides({.temperature = 1, .top_k = 65, .min_p = 0.2}));
  EXPECT_TRUE(decides({.temperature = 1, .top_p = 0.9}));
  EXPECT_FALSE(decides({.temperature = 1, .top_p = 0.99}));
  EXPECT_TRUE(decides({.temperature = 1, .min_p = 0.1}));
  EXPECT_FALSE(decides({.temperature = 1, .min_p = 0.01}));
  // A penalty that lowers cannot bring another token among them, but one of them can leave.
  EXPECT_TRUE(decides({.repetition_penalty = 1.5}, {.tokens = repeated}));
  EXPECT_TRUE(decides({.temperature = 1, .top_k = 63, .repetition_penalty = 9}, {.tokens = repeated}));
  EXPECT_FALSE(decides({.temperature = 1, .top_k = 64, .repetition_penalty = 9}, {.tokens = repeated}));
  // One that raises can, if the token is no candidate.
  EXPECT_FALSE(decides({.repetition_penalty = 0.1}, {.tokens = std::span(repeated).last(1)}));
  EXPECT_TRUE(decides({.repetition_penalty = 0.1}, {.tokens = std::span(repeated).first(2)}));
  EXPECT_FALSE(decides({.presence_penalty = -10}, {.tokens = std::span(repeated).last(1)}));
  EXPECT_TRUE(decides({.presence_penalty = -1}, {.tokens = std::span(repeated).last(1)}));
  EXPECT_FALSE(decides({.biases = {{outside, 10}}}));
  EXPECT_TRUE(decides({.biases = {{outside, 1}}}));
  EXPECT_TRUE(decides({.biases = {{last, 10}}}));
  // A mask that leaves none of them says nothing about the rest.
  std::vector<std::uint32_t> mask(32);
  mask[0] = 1;
  EXPECT_FALSE(decides({}, {.allowed = mask}));
  mask[static_cast<std::size_t>(last) / 32] |= 1U << (last % 32);
  EXPECT_TRUE(decides({}, {.allowed = mask}));
  EXPECT_FALSE(decides({.temperature = 1, .top_k = 2}, {.allowed = mask}));
  EXPECT_FALSE(decides({.logprobs = true, .top_logprobs = 65}));
}

TEST(Sampler, all_tokens_as_candidates_decide_everything) {
  const Logits logits{1, 3, 2, 3};
  const auto top = top_of(logits, 9);
  for (std::uint64_t step = 0; step < 50; ++step) {
    auto sampler = sampler_of({.temperature = 2, .seed = 3}, 4);
    const auto choice = sampler.from_candidates(top.candidates, top.total, {.step = step});
    ASSERT_FALSE(choice->needs_all_logits);
    EXPECT_EQ(choice->id, sampler.from_logits(logits, {.step = step})->id);
  }
}

TEST(Sampler, takes_the_smallest_id_of_equal_logits) {
  EXPECT_EQ(choose({}, {1, 5, 5, 2}), 1);
  EXPECT_EQ(choose({}, {-kInf, -kInf, -3}), 2);
  EXPECT_EQ(choose({.temperature = 1, .top_k = 1}, {1, 5, 5, 2}), 1);
  EXPECT_EQ(choose({.temperature = 1, .top_p = 0}, {1, 5, 5, 2}), 1);
  // min_p keeps both.
  int seen = 0;
  for (std::uint64_t step = 0; step < 40; ++step) {
    const auto id = choose({.temperature = 1, .min_p = 1}, {1, 5, 5, 2}, {.step = step});
    EXPECT_TRUE(id == 1 || id == 2);
    seen |= id;
  }
  EXPECT_EQ(seen, 3);
}

TEST(Sampler, a_repetition_penalty_counts_once_for_each_token) {
  const Tokens once{0};
  const Tokens often{0, 0, 0, 0};
  // 4 / 1.5 is still above 2; 4 / 1.5^2 would not be.
  EXPECT_EQ(choose({.repetition_penalty = 1.5}, {4, 2}, {.tokens = often}), 0);
  EXPECT_EQ(choose({.repetition_penalty = 2.5}, {4, 2}, {.tokens = once}), 1);
  // Below zero it multiplies.
  EXPECT_EQ(choose({.repetition_penalty = 2}, {-1, -1.5F}, {.tokens = once}), 1);
  EXPECT_EQ(choose({.frequency_penalty = 0.6}, {4, 2}, {.tokens = once}), 0);
  EXPECT_EQ(choose({.frequency_penalty = 0.6}, {4, 2}, {.tokens = often}), 1);
  EXPECT_EQ(choose({.presence_penalty = 0.6}, {4, 2}, {.tokens = often}), 0);
}

TEST(Sampler, penalties_see_only_the_window) {
  const Tokens tokens{0, 1, 1};
  EXPECT_EQ(choose({.repetition_penalty = 4, .repetition_window = 2}, {4, 2}, {.tokens = tokens}), 0);
  EXPECT_EQ(choose({.repetition_penalty = 4, .repetition_window = 3}, {4, 0}, {.tokens = tokens}), 0);
  EXPECT_EQ(choose({.repetition_window = 3, .presence_penalty = 4.5}, {4, 0, 0}, {.tokens = tokens}), 2);
  EXPECT_EQ(choose({.repetition_window = 0, .presence_penalty = 4.5}, {4, 0, 0}, {.tokens = tokens}), 2);
  EXPECT_EQ(choose({.repetition_window = 2, .presence_penalty = 4.5}, {4, 0, 0}, {.tokens = tokens}), 0);
}

TEST(Sampler, a_mask_forbids_what_is_past_its_end) {
  Logits logits(40);
  logits[39] = 5;
  logits[7] = 1;
  const std::uint32_t words[] = {1U << 7};
  EXPECT_EQ(choose({}, logits, {.allowed = words}), 7);
}

TEST(Sampler, names_the_token_whose_logit_is_not_a_number) {
  EXPECT_EQ(error_of({}, {1, 2, kNan}), "the logit of token 2 is NaN");
  EXPECT_EQ(error_of({.temperature = 1, .top_p = 0.5}, {kNan, 2, kNan}), "the logit of token 0 is NaN");
  const Candidate candidates[] = {{0, 2}, {1, kNan}};
  auto sampler = sampler_of({}, 4);
  EXPECT_TRUE(sampler.from_candidates(candidates, 1, {})->needs_all_logits);
  EXPECT_TRUE(sampler.from_candidates(std::span(candidates).first(1), kNan, {})->needs_all_logits);
  EXPECT_TRUE(sampler.from_candidates({}, 1, {})->needs_all_logits);
}

TEST(Sampler, says_when_nothing_can_be_chosen) {
  const auto sentence = "no token can be chosen: each has the logit -infinity or is forbidden by the mask";
  const std::uint32_t none[] = {0};
  EXPECT_EQ(error_of({}, {-kInf, -kInf}), sentence);
  EXPECT_EQ(error_of({.temperature = 1}, {1, 2}, {.allowed = none}), sentence);
  const Candidate all[] = {{0, 2}, {1, 1}};
  const auto choice = sampler_of({}, 2).from_candidates(all, 1.4F, {.allowed = none});
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().message, sentence);
}

TEST(Sampler, infinite_logits_share_all_probability) {
  EXPECT_EQ(choose({}, {1, kInf, kInf}), 1);
  int seen = 0;
  for (std::uint64_t step = 0; step < 40; ++step) {
    const auto choice = sampler_of({.temperature = 0.7, .top_p = 0.9, .logprobs = true, .top_logprobs = 3}, 3)
                            .from_logits(Logits{1, kInf, kInf}, {.step = step});
    seen |= choice->id;
    EXPECT_NEAR(choice->logprob, std::log(0.5), 1e-12);
  }
  EXPECT_EQ(seen, 3);
  // A penalty that makes one infinite is no error either.
  const Tokens tokens{0};
  EXPECT_EQ(choose({.temperature = 1, .repetition_penalty = 1e-300}, {3e38F, 2}, {.tokens = tokens}), 0);
}

TEST(Sampler, refuses_candidates_that_cannot_be) {
  auto sampler = sampler_of({}, 2);
  const auto refused = [&](std::vector<Candidate> top) { return sampler.from_candidates(top, 1, {}).error().message; };
  EXPECT_EQ(refused({{2, 1}}), "candidate 0 is token 2, but the vocabulary has 2 tokens");
  EXPECT_EQ(refused({{-1, 1}}), "candidate 0 is token -1, but the vocabulary has 2 tokens");
  EXPECT_EQ(refused({{1, 1}, {0, 1}}),
            "candidate 1 is out of order: logits must fall, and ids rise where logits are equal");
  EXPECT_EQ(refused({{0, 3}, {1, 2}, {1, 1}}), "there are 3 candidates, but the vocabulary has 2 tokens");
  EXPECT_EQ(sampler.from_logits(Logits{1}, {}).error().message, "there are 1 logits, but the vocabulary has 2 tokens");
}

TEST(Sampler, logprobs_are_those_of_the_model) {
  const Logits logits{0.5F, -1, 2, 2, -kInf};
  double total = 0;
  for (const auto logit : logits) total += std::exp(double{logit});
  const Tokens tokens{2, 3};
  auto sampler = sampler_of({.repetition_penalty = 100, .logprobs = true, .top_logprobs = 9}, 5);
  const auto check = [&](const Choice& choice, double precision) {
    EXPECT_EQ(choice.id, 0);
    EXPECT_NEAR(choice.logprob, 0.5 - std::log(total), precision);
    ASSERT_EQ(choice.top.size(), 5U);
    const std::int32_t order[] = {2, 3, 0, 1, 4};
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(choice.top[i].id, order[i]);
      if (i == 4) continue;
      EXPECT_NEAR(choice.top[i].logprob, logits[static_cast<std::size_t>(order[i])] - std::log(total), precision);
    }
    EXPECT_EQ(choice.top[4].logprob, -INFINITY);
  };
  check(*sampler.from_logits(logits, {.tokens = tokens}), 1e-12);
  const auto top = top_of(logits, 5);
  check(*sampler.from_candidates(top.candidates, top.total, {.tokens = tokens}), 1e-6);
}

TEST(Sampler, draws_as_often_as_the_probabilities_say) {
  const Logits logits{0, std::log(2.0F), std::log(5.0F)};
  int counts[3] = {};
  auto sampler = sampler_of({.temperature = 1, .seed = 9}, 3);
  for (std::uint64_t step = 0; step < 80000; ++step) ++counts[sampler.from_logits(logits, {.step = step})->id];
  EXPECT_NEAR(counts[0], 10000, 400);
  EXPECT_NEAR(counts[1], 20000, 500);
  EXPECT_NEAR(counts[2], 50000, 600);
}

TEST(Sampler, gives_the_same_tokens_on_every_machine) {
  Logits logits(50);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 37 % 50) / 8;
  Tokens drawn;
  auto sampler = sampler_of({.temperature = 0.75, .top_k = 40, .top_p = 0.97, .min_p = 0.01, .seed = 42}, 50);
  for (std::uint64_t step = 0; step < 24; ++step) drawn.push_back(sampler.from_logits(logits, {.step = step})->id);
  EXPECT_EQ(drawn, (Tokens{16, 8, 4, 47, 32, 5, 27, 4, 27, 35, 4, 27, 40, 27, 8, 12, 16, 27, 1, 31, 1, 31, 25, 4}));
}

TEST(Sampler, each_bad_setting_has_a_sentence) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({.temperature = -0.5}), "temperature is -0.5, but it must be a number from 0 on");
  EXPECT_EQ(refusal({.temperature = kNan}), "temperature is NaN, but it must be a number from 0 on");
  EXPECT_EQ(refusal({.temperature = kInf}), "temperature is infinity, but it must be a number from 0 on");
  EXPECT_EQ(refusal({.top_k = -1}), "top_k is -1, but it must be a whole number from 0 on");
  EXPECT_EQ(refusal({.top_p = 1.25}), "top_p is 1.25, but it must be a number from 0 to 1");
  EXPECT_EQ(refusal({.min_p = -1e-20}), "min_p is -1e-20, but it must be a number from 0 to 1");
  EXPECT_EQ(refusal({.repetition_penalty = 0}), "repetition_penalty is 0, but it must be a number above 0");
  EXPECT_EQ(refusal({.repetition_window = -9}), "repetition_window is -9, but it must be a whole number from 0 on");
  EXPECT_EQ(refusal({.presence_penalty = 1e39}), "presence_penalty is 1e39, but it must be a finite float32");
  EXPECT_EQ(refusal({.frequency_penalty = -kInf}), "frequency_penalty is -infinity, but it must be a finite float32");
  EXPECT_EQ(refusal({.biases = {{10, 1}}}), "a bias is for token 10, but the vocabulary has 10 tokens");
  EXPECT_EQ(refusal({.biases = {{3, kNan}}}), "the bias of token 3 is NaN, but it must be a finite float32");
  EXPECT_EQ(refusal({.top_logprobs = -1}), "top_logprobs is -1, but it must be a whole number from 0 on");
  EXPECT_EQ(check(Sampling{}, 0).error().message, "the vocabulary has 0 tokens, but it must have from 1 to 8388608");
  EXPECT_FALSE(Sampler::make({.top_p = kNan}, 5));
}

}  // namespace
}  // namespace nibble::generate
