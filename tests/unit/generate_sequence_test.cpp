#include "generate/sequence.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace nibble::generate {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens held(const Sequence& sequence) { return {sequence.tokens().begin(), sequence.tokens().end()}; }

/// As a session does: all chunks, each of which would be a call.
int compute(Sequence& sequence, std::int64_t chunk) {
  int calls = 0;
  for (; !sequence.next(chunk).empty(); ++calls) {
    sequence.advance(static_cast<std::int64_t>(sequence.next(chunk).size()));
  }
  return calls;
}

TEST(Sequence, prefills_in_chunks_and_decodes_token_by_token) {
  Sequence sequence(16, 100);
  EXPECT_EQ(*sequence.begin(Tokens{1, 2, 3, 4, 5}), 0);
  EXPECT_EQ(sequence.next(2).size(), 2U);
  EXPECT_EQ(sequence.next(9).size(), 5U);
  EXPECT_EQ(compute(sequence, 2), 3);
  EXPECT_EQ(*sequence.push(6), Finish::none);
  EXPECT_EQ(sequence.next(2).front(), 6);
  EXPECT_EQ(sequence.computed(), 5);
  EXPECT_EQ(sequence.generated(), 1);
  EXPECT_EQ(sequence.room(), 10);
}

TEST(Sequence, never_computes_a_prefix_again) {
  Sequence sequence(16, 100);
  const Tokens prompt{1, 2, 3, 4};
  ASSERT_TRUE(sequence.begin(prompt));
  compute(sequence, 8);
  // Repeating a request computes one token.
  EXPECT_EQ(*sequence.begin(prompt), 3);
  EXPECT_EQ(compute(sequence, 8), 1);
  ASSERT_TRUE(sequence.push(5));
  compute(sequence, 8);
  ASSERT_TRUE(sequence.push(6));
  // 6 was chosen, but not computed.
  EXPECT_EQ(*sequence.begin(Tokens{1, 2, 3, 4, 5, 6, 7}), 5);
  compute(sequence, 8);
  EXPECT_EQ(*sequence.begin(Tokens{1, 2, 9}), 2);
  EXPECT_EQ(*sequence.begin(Tokens{1}), 0);
  EXPECT_EQ(*sequence.begin(Tokens{8, 2}), 0);
}

TEST(Sequence, what_was_not_computed_is_not_a_prefix) {
  Sequence sequence(16, 100);
  ASSERT_TRUE(sequence.begin(Tokens{1, 2, 3, 4}));
  sequence.advance(2);
  sequence.end(Finish::cancelled);
  EXPECT_EQ(sequence.finish(), Finish::cancelled);
  EXPECT_EQ(*sequence.begin(Tokens{1, 2, 3, 4}), 2);
  EXPECT_EQ(sequence.finish(), Finish::none);
}

TEST(Sequence, a_prompt_may_be_its_own_tokens) {
  Sequence sequence(16, 100);
  ASSERT_TRUE(sequence.begin(Tokens{1, 2, 3, 4}));
  compute(sequence, 8);
  EXPECT_EQ(*sequence.begin(sequence.tokens().first(3)), 2);
  EXPECT_EQ(held(sequence), (Tokens{1, 2, 3}));
}

TEST(Sequence, refuses_prompts_that_cannot_be_and_stays_as_it_was) {
  Sequence sequence(4, 100);
  ASSERT_TRUE(sequence.begin(Tokens{1, 2, 3}));
  const auto refused = [&](const Tokens& prompt, Ends ends = {}) {
    return sequence.begin(prompt, std::move(ends)).error().message;
  };
  EXPECT_EQ(refused({}), "the prompt has no tokens");
  EXPECT_EQ(refused({1, 2, 3, 4, 5}), "the prompt has 5 tokens, but the context holds 4");
  EXPECT_EQ(refused({1, 100}), "token 1 of the prompt is 100, but the vocabulary has 100 tokens");
  EXPECT_EQ(refused({-7}), "token 0 of the prompt is -7, but the vocabulary has 100 tokens");
  EXPECT_EQ(refused({1}, {.max_tokens = -1}), "max_tokens is -1, but it must be a whole number from 0 on");
  EXPECT_EQ(held(sequence), (Tokens{1, 2, 3}));
}

TEST(Sequence, says_why_it_ends) {
  const auto run = [](std::int64_t context, Ends ends, const Tokens& chosen) {
    Sequence sequence(context, 100);
    EXPECT_TRUE(sequence.begin(Tokens{1, 2}, std::move(ends)));
    for (const auto token : chosen) {
      compute(sequence, 4);
      if (sequence.finish() != Finish::none) break;
      EXPECT_TRUE(sequence.push(token));
    }
    return std::pair(sequence.finish(), sequence.generated());
  };
  using Ended = std::pair<Finish, std::int64_t>;
  EXPECT_EQ(run(9, {.stop_ids = {7, 8}}, {5, 6, 8, 5}), (Ended{Finish::stop_id, 3}));
  EXPECT_EQ(run(9, {.max_tokens = 3}, {5, 6, 8, 5}), (Ended{Finish::length, 3}));
  EXPECT_EQ(run(9, {.stop_ids = {8}, .max_tokens = 3}, {5, 6, 8, 5}), (Ended{Finish::stop_id, 3}));
  EXPECT_EQ(run(5, {}, {5, 6, 8, 5}), (Ended{Finish::context, 3}));
  EXPECT_EQ(run(5, {.max_tokens = 3}, {5, 6, 8, 5}), (Ended{Finish::length, 3}));
  EXPECT_EQ(run(2, {}, {5}), (Ended{Finish::context, 0}));
  EXPECT_EQ(to_string(Finish::stop_text), "stop_text");
}

TEST(Sequence, a_stop_string_in_the_last_token_is_the_reason) {
  Sequence sequence(9, 100);
  ASSERT_TRUE(sequence.begin(Tokens{1}, {.max_tokens = 1}));
  compute(sequence, 4);
  EXPECT_EQ(*sequence.push(2), Finish::length);
  sequence.end(Finish::stop_text);
  EXPECT_EQ(sequence.finish(), Finish::stop_text);
  sequence.end(Finish::cancelled);
  EXPECT_EQ(sequence.finish(), Finish::stop_text);
}

TEST(Sequence, refuses_a_token_that_cannot_come_now) {
  Sequence sequence(9, 100);
  EXPECT_EQ(sequence.push(1).error().message, "a token is chosen, but there is no prompt");
  ASSERT_TRUE(sequence.begin(Tokens{1, 2}, {.stop_ids = {5}}));
  EXPECT_EQ(sequence.push(1).error().message, "a token is chosen, but 2 tokens are still to be computed");
  compute(sequence, 4);
  EXPECT_EQ(sequence.push(100).error().message, "the chosen token is 100, but the vocabulary has 100 tokens");
  ASSERT_TRUE(sequence.push(5));
  EXPECT_EQ(sequence.push(1).error().message, "the generation has ended: stop_id");
}

TEST(Sequence, rewinds_to_what_is_computed) {
  Sequence sequence(9, 100);
  ASSERT_TRUE(sequence.begin(Tokens{1, 2, 3, 4}));
  sequence.advance(3);
  EXPECT_EQ(sequence.rewind(4).error().message, "cannot rewind to position 4: 3 tokens are computed");
  EXPECT_EQ(sequence.rewind(-1).error().message, "cannot rewind to position -1: 3 tokens are computed");
  const Sequence fork = sequence;
  ASSERT_TRUE(sequence.rewind(2));
  EXPECT_EQ(held(sequence), (Tokens{1, 2}));
  EXPECT_EQ(*sequence.begin(Tokens{1, 2, 3}), 2);
  EXPECT_EQ(held(fork), (Tokens{1, 2, 3, 4}));
  ASSERT_TRUE(sequence.rewind(0));
  EXPECT_TRUE(sequence.tokens().empty());
}

TEST(Sequence, does_what_a_cache_that_remembers_its_tokens_does) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    Sequence sequence(12, 3);
    Tokens rows;  // the token of each row of the cache that is right
    for (int step = 0; step < 60; ++step) {
      const auto what = random() % 5;
      if (what == 0) {
        Tokens prompt;
        for (auto n = 1 + random() % 12; n > 0; --n) prompt.push_back(static_cast<std::int32_t>(random() % 2));
        const auto kept = sequence.begin(prompt, {.stop_ids = {2}});
        ASSERT_TRUE(kept);
        std::size_t common = 0;
        while (common < rows.size() && common + 1 < prompt.size() && rows[common] == prompt[common]) ++common;
        ASSERT_EQ(*kept, static_cast<std::int64_t>(common));
        rows.resize(common);
      } else if (what == 1) {
        const auto position = random() % (rows.size() + 1);
        ASSERT_TRUE(sequence.rewind(static_cast<std::int64_t>(position)));
        rows.resize(position);
      } else if (what == 2) {
        const auto chunk = sequence.next(static_cast<std::int64_t>(1 + random() % 5));
        rows.insert(rows.end(), chunk.begin(), chunk.end());
        sequence.advance(static_cast<std::int64_t>(chunk.size()));
      } else {
        const bool can = !rows.empty() && sequence.finish() == Finish::none && sequence.next(1).empty();
        ASSERT_EQ(sequence.push(static_cast<std::int32_t>(random() % 3)).has_value(), can);
      }
      ASSERT_EQ(sequence.computed(), static_cast<std::int64_t>(rows.size()));
      ASSERT_TRUE(std::ranges::equal(rows, sequence.tokens().first(rows.size())));
      ASSERT_GE(sequence.room(), 0);
    }
  }
}

}  // namespace
}  // namespace nibble::generate
