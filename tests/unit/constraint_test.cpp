#include "constraint/grammar.hpp"

#include <gtest/gtest.h>

#include <random>

#include "constraint/matcher.hpp"

namespace nibble::constraint {
namespace {

using Strings = std::vector<std::string>;

Vocabulary vocabulary_of(const Strings& tokens, std::vector<std::int32_t> stop_ids = {}) {
  std::string texts;
  std::vector<std::uint32_t> ends;
  for (const auto& token : tokens) {
    texts += token;
    ends.push_back(static_cast<std::uint32_t>(texts.size()));
  }
  return *Vocabulary::make(std::move(texts), std::move(ends), std::move(stop_ids));
}

/// One token for each byte, and one that ends a text.
const Vocabulary& bytes() {
  static const auto made = [] {
    Strings tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    tokens.emplace_back("<end>");
    return vocabulary_of(tokens, {256});
  }();
  return made;
}

Matcher matcher_of(std::string_view text, const Vocabulary& vocabulary = bytes()) {
  auto grammar = Grammar::parse(text);
  EXPECT_TRUE(grammar) << grammar.error().message;
  auto matcher = Matcher::make(vocabulary, *std::move(grammar));
  EXPECT_TRUE(matcher) << matcher.error().message;
  return *std::move(matcher);
}

bool is_allowed(const Matcher& matcher, std::size_t id) { return (matcher.allowed()[id / 32] >> id % 32 & 1U) != 0; }

/// Whether a text is what the grammar wants, taken byte by byte.
bool accepts(std::string_view grammar, std::string_view text) {
  auto matcher = matcher_of(grammar);
  for (const char byte : text) {
    if (!is_allowed(matcher, static_cast<unsigned char>(byte))) return false;
    EXPECT_TRUE(matcher.take(static_cast<unsigned char>(byte)));
  }
  return is_allowed(matcher, 256) || matcher.is_done();
}

std::string error_of(std::string_view text) {
  const auto grammar = Grammar::parse(text);
  return grammar ? "" : grammar.error().message;
}

/// All tokens that may come.
Strings next(const Matcher& matcher, const Vocabulary& vocabulary) {
  Strings found;
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    if (is_allowed(matcher, id)) found.emplace_back(vocabulary.text_of(id));
  }
  return found;
}

TEST(Grammar, texts_classes_and_repetitions_are_read) {
  const auto* const grammar = R"(
    # What comes first is not the root.
    word ::= [a-c] | "é"   # as UTF-8
    root ::= "yes" | "no" (", " word{1,3})? | word+ "!" "?"* | [^a-z!"\]-] | "{" word{2} "}" word{2,}
  )";
  for (const auto* text :
       {"yes", "no", "no, a", "no, abc", "aé!", "é!", "ab!???", "A", "\xF0\x9F\x98\x80", "{ab}cc", "{ab}cca\u00e9"}) {
    EXPECT_TRUE(accepts(grammar, text)) << text;
  }
  for (const auto* text :
       {"", "y", "yess", "no, ", "no, abca", "!", "a", "-", "]", "\"", "{a}cc", "{ab}c", "{abc}", "\u00e8!"}) {
    EXPECT_FALSE(accepts(grammar, text)) << text;
  }
}

TEST(Grammar, escapes_are_characters) {
  const auto* const grammar = R"(root ::= "\n\t\r\\\"\x41\u00e9\U0001F600" [\[\]\-\x30-\x39] .)";
  EXPECT_TRUE(accepts(grammar, "\n\t\r\\\"A\u00e9\U0001F600]z"));
  EXPECT_TRUE(accepts(grammar, "\n\t\r\\\"A\u00e9\U0001F600-\u20ac"));
  EXPECT_FALSE(accepts(grammar, "\n\t\r\\\"A\u00e9\U0001F600az"));
}

TEST(Grammar, characters_have_all_bytes_of_utf8_and_no_others) {
  const auto* const any = "root ::= .";
  const auto* const range = R"(root ::= [\u0390-\u1fff\U0000f000-\U00012345])";
  const auto encode = [](std::uint32_t c) {
    std::string text;
    const auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
    if (c < 0x80) return put(c), text;
    if (c < 0x800) return put(0xc0 | c >> 6), put(0x80 | (c & 63)), text;
    if (c < 0x10000) return put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63)), text;
    return put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 63)), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63)), text;
  };
  std::mt19937 random(1);
  const std::vector<std::uint32_t> edges{0,      0x7f,   0x80,    0x38f,   0x390,   0x7ff,    0x800,
                                         0x1fff, 0x2000, 0xd7ff,  0xd800,  0xdfff,  0xe000,   0xefff,
                                         0xf000, 0xffff, 0x10000, 0x12345, 0x12346, 0x10ffff, 0x110000};
  for (std::size_t i = 0; i < 300; ++i) {
    const auto c = i < edges.size() ? edges[i] : static_cast<std::uint32_t>(random() % 0x110000);
    const bool is_character = c < 0x110000 && (c < 0xd800 || c > 0xdfff);
    const bool is_in = (c >= 0x390 && c <= 0x1fff) || (c >= 0xf000 && c <= 0x12345);
    EXPECT_EQ(accepts(any, encode(c)), is_character) << c;
    EXPECT_EQ(accepts(range, encode(c)), is_character && is_in) << c;
  }
  EXPECT_FALSE(accepts(any, "\xc0\x80"));  // too long for what it says
  EXPECT_FALSE(accepts(any, "\x80"));
}

TEST(Grammar, recursive_rules_are_read_to_any_depth) {
  const auto* const grammar = R"(
    root ::= list
    list ::= "[" (item ("," item)*)? "]"
    item ::= list | [0-9]+)";
  EXPECT_TRUE(accepts(grammar, "[[],[1,[23]],4]"));
  EXPECT_FALSE(accepts(grammar, "[[],[1,[23]],4"));
  EXPECT_FALSE(accepts(grammar, "[1,]"));
  EXPECT_TRUE(accepts(grammar, std::string(300, '[') + std::string(300, ']')));
}

TEST(Grammar, what_may_be_empty_may_repeat) {
  const auto* const grammar = R"(
    root ::= (a* b? ""){0,4} c*
    a ::= "a" | ""
    b ::= a "b"
    c ::= (a | "c"?)+)";
  for (const auto* text : {"", "aabab", "ccac", "abbbcc"}) EXPECT_TRUE(accepts(grammar, text)) << text;
  EXPECT_FALSE(accepts(grammar, "cb"));
}

TEST(Grammar, errors_are_one_sentence_with_the_line) {
  for (const auto& [text, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"", "the grammar has no rule 'root', which is what the text must be"},
           {"start ::= \"a\"", "the grammar has no rule 'root', which is what the text must be"},
           {"root ::= \"a\"\nx ::= y", "line 2 of the grammar: there is no rule 'y'"},
           {"root ::= \"a\nroot", "line 2 of the grammar: it ends within a text or a class"},
           {"root ::= [a-", "line 1 of the grammar: it ends within a text or a class"},
           {"root: \"a\"", "line 1 of the grammar: a rule begins with its name and ::="},
           {"root ::= \"a\" %", "line 1 of the grammar: a rule cannot go on like this"},
           {"root ::= (\"a\"", "line 1 of the grammar: a parenthesis is not closed"},
           {"root ::= \"a\")", "line 1 of the grammar: a rule cannot go on like this"},
           {"root ::= *", "line 1 of the grammar: a rule cannot go on like this"},
           {"root ::= \"a\"{x}", "line 1 of the grammar: how often something comes is written {2}, {2,} or {2,5}"},
           {"root ::= \"a\"{2", "line 1 of the grammar: how often something comes is written {2}, {2,} or {2,5}"},
           {"root ::= \"a\"{3,2}", "line 1 of the grammar: something shall come more often than it may"},
           {"root ::= [b-a]", "line 1 of the grammar: a class has a range from a later character to an earlier one"},
           {R"(root ::= "\q")", "line 1 of the grammar: there is no such escape"},
           {R"(root ::= "\x4")", "line 1 of the grammar: an escape has too few digits"},
           {R"(root ::= "\ud800")", "line 1 of the grammar: an escape is no character"},
           {R"(root ::= "\UFFFFFFFF")", "line 1 of the grammar: an escape is no character"},
           {"root ::= \"\x80\"", "line 1 of the grammar: it is not UTF-8"},
           {"root ::= \"\xed\xa0\x80\"", "line 1 of the grammar: it is not UTF-8"},
           {"root ::= \"\xf0\x9f", "line 1 of the grammar: it is not UTF-8"},
           {"root ::= \"a\"\nroot ::= \"b\"", "line 2 of the grammar: there is a rule of this name already"},
           {"root ::= \"a\"{100000000}", "the grammar has more than 400000 places"},
           {"root ::= (((\"a\"{999}){999}){999}){999}", "the grammar has more than 400000 places"},
           {"root ::= root \"a\" | \"b\"",
            "the rule 'root' of the grammar begins with itself: let it begin with something else"},
           {"root ::= x\nx ::= y? z\ny ::= \"y\"\nz ::= y* x",
            "the rule 'z' of the grammar begins with itself: let it begin with something else"},
       }) {
    EXPECT_EQ(error_of(text), sentence) << text;
  }
  EXPECT_EQ(error_of("root ::= " + std::string(100000, '(')), "line 1 of the grammar: parentheses nest too deeply");
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 30000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "?\n";
  EXPECT_EQ(error_of(chain + "r30000 ::= \"x\""), "");
  std::string nothing = "root ::= ";
  for (int i = 0; i < 60000; ++i) nothing += "\"\" ";
  EXPECT_EQ(error_of(nothing), "");
}

TEST(Matcher, tokens_of_many_bytes_are_allowed_where_all_of_them_fit) {
  const auto tokens = vocabulary_of({"a", "ab", "abc", "b", "bc", "c", "", "x", "ca", "ab"}, {7});
  auto matcher = matcher_of("root ::= \"abca\" | \"ab\" [cd]?", tokens);
  EXPECT_EQ(next(matcher, tokens), (Strings{"a", "ab", "abc", "ab"}));
  ASSERT_TRUE(matcher.take(9));
  EXPECT_EQ(next(matcher, tokens), (Strings{"c", "x", "ca"}));
  EXPECT_FALSE(matcher.is_done());
  ASSERT_TRUE(matcher.take(8));
  EXPECT_TRUE(matcher.is_done());
  EXPECT_EQ(next(matcher, tokens), (Strings{"x"}));
}

TEST(Matcher, ends_where_nothing_can_follow_or_a_stop_token_came) {
  auto matcher = matcher_of("root ::= [0-9]+");
  EXPECT_FALSE(is_allowed(matcher, 256));
  ASSERT_TRUE(matcher.take('7'));
  EXPECT_TRUE(is_allowed(matcher, 256));
  EXPECT_FALSE(matcher.is_done());
  EXPECT_EQ(matcher.take('x').error().message, "the grammar does not allow token 120 here");
  EXPECT_EQ(matcher.take(-1).error().message, "the grammar does not allow token -1 here");
  EXPECT_EQ(matcher.take(257).error().message, "the grammar does not allow token 257 here");
  ASSERT_TRUE(matcher.take(256));
  EXPECT_TRUE(matcher.is_done());
  EXPECT_FALSE(matcher.take('7'));
  EXPECT_TRUE(matcher_of("root ::= \"\"").is_done());
}

TEST(Matcher, text_that_no_token_can_write_is_told) {
  const auto tokens = vocabulary_of({"a", "b"});
  auto matcher = matcher_of("root ::= \"ac\" | \"ba\"", tokens);
  EXPECT_EQ(matcher.take(0).error().message, "no token of this model can go on with the text as the grammar wants it");
  EXPECT_FALSE(Matcher::make(tokens, *Grammar::parse("root ::= \"c\"")));
  EXPECT_FALSE(Matcher::make(vocabulary_of({}), *Grammar::parse("root ::= \"c\"")));
}

TEST(Matcher, ambiguous_grammar_is_told_before_it_takes_all_memory) {
  auto matcher = matcher_of("root ::= x\nx ::= \"(\" x \"a\" | \"(\" x \"b\" | \"(\" x \"c\" | \"x\"");
  Status status;
  int taken = 0;
  for (; status && taken < 100; ++taken) status = matcher.take('(');
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "the grammar is too complex for this text");
}

TEST(Matcher, long_text_is_followed_after_what_was_known_is_forgotten) {
  // Each place of the repetition is another, and each letter is by itself.
  std::string grammar = "root ::= \"<\" [";
  for (char c = 'A'; c <= 'z'; ++c) grammar += std::string(c == '\\' || c == ']' || c == '^' ? "\\" : "") + c;
  grammar += "]{0,6000} \">\"";
  auto matcher = matcher_of(grammar);
  ASSERT_TRUE(matcher.take('<'));
  for (int i = 0; i < 6000; ++i) {
    ASSERT_TRUE(matcher.take('A' + i % 26));
    ASSERT_TRUE(is_allowed(matcher, '>'));
    ASSERT_EQ(is_allowed(matcher, 'z'), i + 1 < 6000);
  }
  ASSERT_TRUE(matcher.take('>'));
  EXPECT_TRUE(matcher.is_done());
}

TEST(Vocabulary, texts_that_do_not_end_where_they_should_are_told) {
  EXPECT_FALSE(Vocabulary::make("abc", {2, 1}, {}));
  EXPECT_FALSE(Vocabulary::make("abc", {1, 2}, {}));
  EXPECT_TRUE(Vocabulary::make("", {}, {}));
}

}  // namespace
}  // namespace nibble::constraint
