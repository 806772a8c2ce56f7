#include "generate/text_stream.hpp"

#include <gtest/gtest.h>

#include <random>

namespace nibble::generate {
namespace {

using Strings = std::vector<std::string>;

struct Read {
  Strings pieces;  ///< one per token, and the rest
  std::string text;
  std::optional<std::size_t> stopped;
};

Read read(const Strings& tokens, Strings stops = {}) {
  auto stream = *TextStream::make(std::move(stops));
  Read result;
  for (const auto& token : tokens) result.pieces.emplace_back(stream.push(token));
  result.pieces.emplace_back(stream.finish());
  for (const auto& piece : result.pieces) result.text += piece;
  result.stopped = stream.stopped();
  return result;
}

TEST(TextStream, hands_out_what_it_gets) {
  EXPECT_EQ(read({"Hello", ", ", "", "world"}).pieces, (Strings{"Hello", ", ", "", "world", ""}));
}

TEST(TextStream, never_hands_out_half_a_character) {
  EXPECT_EQ(read({"a\xC3", "\xA9z"}).pieces, (Strings{"a", "\u00E9z", ""}));
  EXPECT_EQ(read({"\xF0", "\x9F", "\x98", "\x80!"}).pieces, (Strings{"", "", "", "\U0001F600!", ""}));
  EXPECT_EQ(read({"\xE2\x82", "\xAC"}).pieces, (Strings{"", "\u20AC", ""}));
}

TEST(TextStream, bytes_that_are_no_characters_become_replacements) {
  const std::string r = "\uFFFD";
  EXPECT_EQ(read({"a\x80z"}).text, "a" + r + "z");
  EXPECT_EQ(read({"\xC0\xAF"}).text, r + r);                  // overlong
  EXPECT_EQ(read({"\xE0\x80\xAF"}).text, r + r + r);          // overlong
  EXPECT_EQ(read({"\xED\xA0\x80"}).text, r + r + r);          // half of a pair
  EXPECT_EQ(read({"\xF4\x90\x80\x80"}).text, r + r + r + r);  // above the last
  EXPECT_EQ(read({"\xF5\xFF"}).text, r + r);
  // The longest beginning of a character is one.
  EXPECT_EQ(read({"\xE2\x82z"}).text, r + "z");
  EXPECT_EQ(read({"\xF0\x9F\x98", "\xF0\x9F\x98\x80"}).text, r + "\U0001F600");
  EXPECT_EQ(read({"\xF1\x80\x80\xE1\x80\xC2z"}).text, r + r + r + "z");
  EXPECT_EQ(read({"x\xE2\x82"}).pieces, (Strings{"x", r}));
  EXPECT_EQ(read({std::string("\0a", 2)}).text, std::string("\0a", 2));
}

TEST(TextStream, stops_before_the_stop_string) {
  const auto result = read({"one two", " three"}, {"two"});
  EXPECT_EQ(result.pieces, (Strings{"one ", "", ""}));
  EXPECT_EQ(result.stopped, 0U);
  EXPECT_EQ(read({"two"}, {"two"}).text, "");
  EXPECT_EQ(read({"\u00E9\u20AC!"}, {"\u20AC"}).text, "\u00E9");
}

TEST(TextStream, holds_back_what_may_become_a_stop_string) {
  EXPECT_EQ(read({"a<", "|e", "nd", "|>b"}, {"<|end|>"}).pieces, (Strings{"a", "", "", "", ""}));
  EXPECT_EQ(read({"a<", "|e", "nd", "s"}, {"<|end|>"}).pieces, (Strings{"a", "", "", "<|ends", ""}));
  EXPECT_EQ(read({"a<", "|e"}, {"<|end|>"}).pieces, (Strings{"a", "", "<|e"}));
  // Its beginning occurs in it again.
  EXPECT_EQ(read({"aab", "aabaa", "ab"}, {"aabaaab"}).pieces, (Strings{"", "aab", "", ""}));
  EXPECT_FALSE(read({"a<", "|e"}, {"<|end|>"}).stopped);
}

TEST(TextStream, takes_the_stop_string_that_is_complete_first) {
  EXPECT_EQ(read({"xabcd"}, {"abcd", "bc"}).text, "xa");
  EXPECT_EQ(read({"xabcd"}, {"abcd", "bc"}).stopped, 1U);
  // Of two that end at once, the longer.
  EXPECT_EQ(read({"xabcd"}, {"c", "abc", "bc"}).text, "x");
  EXPECT_EQ(read({"xabcd"}, {"c", "abc", "bc"}).stopped, 1U);
  EXPECT_EQ(read({"x\n", "\n"}, {"\n\nQ", "\n\n"}).stopped, 1U);
  EXPECT_EQ(read({"x\n", "\n"}, {"\n\nQ", "\n\n"}).text, "x");
}

TEST(TextStream, a_replacement_can_be_a_part_of_a_stop_string) {
  EXPECT_EQ(read({"a\x80!"}, {"\uFFFD!"}).text, "a");
  EXPECT_EQ(read({"a\xE2\x82"}, {"\uFFFD"}).stopped, 0U);
}

TEST(TextStream, refuses_stop_strings_that_cannot_be) {
  EXPECT_EQ(TextStream::make({"a", ""}).error().message, "stop string 1 is empty");
  EXPECT_EQ(TextStream::make({"\xE2\x82"}).error().message, "stop string 0 is not UTF-8");
}

TEST(TextStream, a_long_stop_string_that_almost_matches_takes_no_longer) {
  // Each byte falls back from far: with the square of the time this would not end.
  const std::string stop = std::string(200000, 'a') + "b";
  auto stream = *TextStream::make({stop});
  std::size_t handed = 0;
  for (int i = 0; i < 1000000; ++i) handed += stream.push("a").size();
  EXPECT_EQ(handed, 800000U);
  EXPECT_EQ(stream.push("c").size(), 200001U);
}

TEST(TextStream, does_not_depend_on_how_text_is_cut) {
  std::mt19937 random(3);
  const std::string letters[] = {"a", "b", "\u00E9", "\xC3", "\xA9"};
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    for (auto n = random() % 12; n > 0; --n) text += letters[random() % 5];
    Strings stops;
    for (auto n = random() % 4; n > 0; --n) {
      stops.emplace_back();
      for (auto m = 1 + random() % 4; m > 0; --m) stops.back() += letters[random() % 3];
    }
    // What a reader of the whole text sees: decoded, then cut where the first stop string is complete.
    auto expected = read({text}).text;
    std::optional<std::size_t> stopped;
    for (std::size_t end = 1; end <= expected.size() && !stopped; ++end) {
      for (std::size_t s = 0; s < stops.size(); ++s) {
        const bool longer = !stopped || stops[s].size() > stops[*stopped].size();
        if (std::string_view(expected).substr(0, end).ends_with(stops[s]) && longer) stopped = s;
      }
      if (stopped) expected.resize(end - stops[*stopped].size());
    }
    Strings tokens;
    for (std::size_t at = 0; at < text.size();) {
      tokens.push_back(text.substr(at, 1 + random() % 3));
      at += tokens.back().size();
    }
    const auto result = read(tokens, stops);
    ASSERT_EQ(result.text, expected) << i;
    ASSERT_EQ(result.stopped, stopped) << i;
  }
}

}  // namespace
}  // namespace nibble::generate
