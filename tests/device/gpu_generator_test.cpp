// The loop of text generation, on a model whose logits after a token are a row of a table.
#include "nibble/generate.hpp"

#include <unistd.h>

#include <filesystem>
#include <limits>
#include <thread>
#include <utility>

#include "gpu_fixture.hpp"
#include "graph/guarded.hpp"
#include "stop_checks.hpp"
#include "support/small_programs.hpp"
#include "sweep.hpp"

namespace nibble::test {
namespace {

constexpr std::int32_t kVocabulary = 40;
constexpr std::uint32_t kChunk = 4;
constexpr std::uint32_t kContext = 64;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
using Tokens = std::vector<std::int32_t>;

std::int32_t next_of(std::int32_t token) { return (token * 7 + 3) % kVocabulary; }

/// The likeliest token after each is next_of() it, then come the smallest ids.
std::vector<float> logits() {
  std::vector<float> table;
  for (std::int32_t token = 0; token < kVocabulary; ++token) {
    for (std::int32_t other = 0; other < kVocabulary; ++other) {
      table.push_back(other == next_of(token) ? 4.0F : -0.05F * static_cast<float>(other));
    }
  }
  return table;
}

Tokens chain(std::int32_t token, std::size_t count) {
  Tokens tokens;
  while (tokens.size() < count) tokens.push_back(token = next_of(token));
  return tokens;
}

GenerateOptions at_most(std::int64_t tokens) {
  GenerateOptions options;
  options.max_tokens = tokens;
  return options;
}

class GeneratorTest : public LoadedTest {
 protected:
  Generator generator(const LoadOptions& options = {{.candidates = 8}}, const std::vector<float>& table = logits()) {
    session(next_token_blob(table, kChunk, kContext), options);
    return Generator::make(loaded->model).value();
  }
  static Result<Tokens> generate(Generator& generator, const Tokens& prompt, const GenerateOptions& options) {
    TRY(generator.start(prompt, options));
    Tokens tokens;
    while (true) {
      TRY_ASSIGN(const auto token, generator.next());
      if (!token) return tokens;
      tokens.push_back(token->id);
    }
  }
  static Tokens prompt(std::size_t count) { return Tokens(count, 5); }

  std::string path = std::filesystem::temp_directory_path() / fmt::format("nibble_generator_{}.state", getpid());
};

TEST_F(GeneratorTest, what_the_model_is_and_takes_is_known) {
  const auto made = generator();
  EXPECT_EQ(made.info().vocabulary, kVocabulary);
  EXPECT_EQ(made.info().context_length, kContext);
  EXPECT_EQ(made.info().chunk, kChunk);
  EXPECT_GE(made.info().model_bytes, kVocabulary * kVocabulary * sizeof(float));
  EXPECT_GE(made.info().session_bytes, kContext * 4 * sizeof(float));
}

TEST_F(GeneratorTest, the_next_step_is_submitted_before_a_token_is_handed_out) {
  auto made = generator();
  ASSERT_TRUE(succeeds(made.start(prompt(6), at_most(3))));
  EXPECT_EQ(made.stats()->calls, 0) << "starting computes nothing";
  for (const std::int64_t calls : {3, 4, 4}) {
    ASSERT_TRUE(succeeds(made.next()));
    EXPECT_EQ(made.stats()->calls, calls);
  }
  EXPECT_FALSE(made.next()->has_value());
  EXPECT_EQ(made.stats()->finish, Finish::length);
}

TEST_F(GeneratorTest, each_step_takes_the_same_dispatches_to_the_end_of_the_context) {
  auto made = generator();
  ASSERT_TRUE(succeeds(made.start(prompt(1), {})));
  ASSERT_TRUE(succeeds(made.next()));
  const auto objects = device.live_objects();
  const auto first = *made.stats();
  while (made.next().value()) continue;
  const auto last = *made.stats();
  EXPECT_EQ(last.finish, Finish::context);
  EXPECT_EQ(last.generated_tokens, kContext - 1);
  EXPECT_EQ(first.dispatches * last.calls, last.dispatches * first.calls);
  EXPECT_EQ(device.live_objects(), objects);
}

TEST_F(GeneratorTest, cancelling_in_a_chunk_of_the_prompt_computes_no_other_chunk) {
  auto made = generator({{.candidates = 8, .max_batch_work = 1}});
  ASSERT_TRUE(succeeds(made.start(prompt(40), {})));
  int asked = 0;
  const auto token = [&] {
    const Acts between_batches([&] {
      if (++asked == 1) made.cancel();
    });
    return made.next();
  }();
  ASSERT_GE(asked, 1);
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().code, ErrorCode::cancelled);
  EXPECT_LE(made.stats()->calls, 1);
  EXPECT_EQ(made.stats()->finish, Finish::cancelled);
  EXPECT_FALSE(made.next().value()) << "it has ended";
  EXPECT_EQ(*generate(made, prompt(40), at_most(5)), chain(5, 5));
}

TEST_F(GeneratorTest, cancelling_where_all_logits_are_fetched_leaves_nothing_half_done) {
  // A mask that forbids all candidates makes the generator compute the last token once more.
  auto made = generator({{.candidates = 2, .max_batch_work = 1}});
  std::vector<std::uint32_t> allowed = {0, 1U << 7};
  ASSERT_TRUE(succeeds(made.start(prompt(1), {})));
  ASSERT_TRUE(succeeds(made.next()));
  // The step that was submitted ahead is past its batches: what asks is the one for the logits.
  int asked = 0;
  const auto token = [&] {
    const Acts between_batches([&] {
      if (++asked == 1) made.cancel();
    });
    return made.next(allowed);
  }();
  ASSERT_GE(asked, 1);
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().code, ErrorCode::cancelled);
  EXPECT_FALSE(made.next(allowed).value());
  ASSERT_TRUE(succeeds(made.start(prompt(1), {})));
  EXPECT_EQ(made.next(allowed).value()->id, 39);
}

TEST_F(GeneratorTest, a_text_that_has_ended_ends_the_generation) {
  auto made = generator();
  ASSERT_TRUE(succeeds(made.start(prompt(3), at_most(2))));
  ASSERT_TRUE(succeeds(made.next()));
  ASSERT_TRUE(succeeds(made.stop()));
  EXPECT_EQ(made.stats()->finish, Finish::stop_text);
  EXPECT_FALSE(made.next().value());
  ASSERT_TRUE(succeeds(made.start(prompt(3), at_most(1))));
  ASSERT_TRUE(succeeds(made.next()));
  ASSERT_TRUE(succeeds(made.stop()));
  EXPECT_EQ(made.stats()->finish, Finish::stop_text) << "though it was the last token, too";
  EXPECT_EQ(*generate(made, prompt(3), at_most(5)), chain(5, 5));
}

TEST_F(GeneratorTest, logits_that_are_no_numbers_are_an_error_that_names_the_token) {
  auto table = logits();
  table[static_cast<std::size_t>(next_of(5)) * kVocabulary + 11] = kNaN;
  for (const std::uint64_t candidates : {0, 8}) {
    auto made = generator({{.candidates = candidates}}, table);
    ASSERT_TRUE(succeeds(made.start(prompt(3), {})));
    EXPECT_EQ(made.next().value()->id, next_of(5));
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(fails_with(made.next(), "the logit of token 11 is NaN"));
    EXPECT_EQ(*generate(made, {0}, at_most(2)), chain(0, 2)) << "another text goes";
  }
}

TEST_F(GeneratorTest, a_second_thread_is_told_that_it_cannot_share_a_session) {
  auto made = generator({{.candidates = 8, .max_batch_work = 1}});
  ASSERT_TRUE(succeeds(made.start(prompt(40), {})));
  bool was_asked = false;
  const Acts between_batches([&] {
    if (std::exchange(was_asked, true)) return;
    std::thread([&] {
      EXPECT_TRUE(fails_with(made.next(), "another thread is using this session"));
      EXPECT_TRUE(fails_with(made.start(prompt(1), {}), "another thread is using this session"));
      EXPECT_TRUE(fails_with(made.fork(), "another thread is using this session"));
      EXPECT_TRUE(fails_with(made.stats(), "another thread is using this session"));
#ifndef NIBBLE_NO_SWEEPS
      // The sentence itself takes memory.
      EXPECT_EQ(without(1, [&] { return made.stats(); }).error().code, ErrorCode::out_of_memory);
#endif
    }).join();
  });
  EXPECT_EQ(made.next().value()->id, next_of(5));
  EXPECT_TRUE(was_asked);
}

TEST_F(GeneratorTest, a_generation_without_memory_for_a_token_gives_it_the_next_time) {
  auto made = generator();
  const GenerateOptions options = {{.repetition_penalty = 1.1, .logprobs = true, .top_logprobs = 12}, {}, 9};
  const Tokens given = prompt(7);
  const auto expected = *generate(made, given, options);
  const auto run = [&]() -> Status {
    TRY(made.start(given, options));
    for (const auto wanted : expected) {
      auto token = made.next();
      // What failed for memory is asked for again.
      const bool had_none = !token && token.error().code == ErrorCode::out_of_memory;
      if (had_none) token = made.next();
      if (!token) return std::unexpected(std::move(token).error());
      if (!*token || (*token)->id != wanted) return fail(ErrorCode::internal, "another token than {}", wanted);
      if (had_none) return std::unexpected(no_memory());
    }
    return {};
  };
  sweep(run, 200);
}

TEST_F(GeneratorTest, saving_forking_and_restoring_without_memory_are_errors) {
  auto made = generator();
  ASSERT_TRUE(succeeds(generate(made, prompt(7), at_most(3))));
  const auto run = [&]() -> Status {
    TRY(made.save(path));
    TRY_ASSIGN(auto other, made.fork());
    TRY(other.rewind(0));
    TRY(other.restore(path));
    TRY_ASSIGN(const auto held, other.tokens());
    TRY_ASSIGN(const auto wanted, made.tokens());
    return held == wanted ? Status() : fail(ErrorCode::internal, "other tokens");
  };
  sweep(run, 150);
  std::filesystem::remove(path);
}

// The third call makes token 0 the likeliest.
TEST_F(GeneratorTest, state_that_cannot_be_taken_back_begins_anew) {
  auto table = logits();
  for (std::size_t token = 0; token < kVocabulary; ++token) table[token * kVocabulary] = 1.5F;
  session(next_token_blob(table, kChunk, kContext, true), {{.candidates = 8, .max_batch_work = 1}});
  auto made = Generator::make(loaded->model).value();
  const Tokens wanted = {next_of(5), next_of(next_of(5)), 0, 0};
  const auto goes = [&](const Tokens& given, std::size_t cached) {
    EXPECT_EQ(*generate(made, given, at_most(4)), wanted);
    EXPECT_EQ(made.stats()->cached_tokens, cached);
  };
  goes(prompt(4), 0);
  goes(prompt(4), 0);
  // What goes on from all that it holds needs no way back.
  auto longer = *made.tokens();
  longer.push_back(0);
  EXPECT_EQ(*generate(made, longer, at_most(1)), Tokens{0});
  EXPECT_EQ(made.stats()->cached_tokens, std::ssize(longer) - 1);
  // A call that is cancelled may have counted.
  ASSERT_TRUE(succeeds(made.start(prompt(4), {})));
  {
    const Acts between_batches([&] { made.cancel(); });
    EXPECT_EQ(made.next().error().code, ErrorCode::cancelled);
  }
  EXPECT_TRUE(fails_with(made.fork(), "left the state of this session incomplete"));
  EXPECT_TRUE(fails_with(made.save(path), "left the state of this session incomplete"));
  goes(prompt(4), 0);
  EXPECT_TRUE(fails_with(made.rewind(3), "can only be rewound to row 0"));
  EXPECT_EQ(made.tokens()->size(), 7) << "which changed nothing";
  ASSERT_TRUE(succeeds(made.save(path)));
  EXPECT_TRUE(succeeds(made.rewind(0)));
  goes(prompt(4), 0);
  EXPECT_TRUE(succeeds(made.restore(path)));
  EXPECT_EQ(made.tokens()->size(), 7);
  std::filesystem::remove(path);
}

TEST_F(GeneratorTest, a_lost_device_is_the_error_of_every_call) {
  auto made = generator();
  ASSERT_TRUE(succeeds(made.start(prompt(3), {})));
  ASSERT_TRUE(succeeds(made.next()));
  Internals::of(device)->gpu->destroy_for_test();
  EXPECT_TRUE(fails_with(load(embedding()), "is lost")) << "who notices it first";
  EXPECT_TRUE(fails_with(made.next(), "is lost"));
  EXPECT_TRUE(fails_with(made.next(), "is lost"));
  EXPECT_TRUE(fails_with(made.fork(), "is lost"));
}

}  // namespace
}  // namespace nibble::test
