// A text that may be a grammar, and tokens that it allows: whoever takes only those comes to an end or goes on.
#include <cstdio>
#include <cstdlib>

#include "constraint/matcher.hpp"

namespace {

using namespace nibble::constraint;  // NOLINT(google-build-using-namespace): a program of one file

[[noreturn]] void bug(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

/// All bytes, some words, a token without text, and one that ends a text.
const Vocabulary& vocabulary() {
  static const auto made = [] {
    std::string texts;
    std::vector<std::uint32_t> ends;
    const auto add = [&](std::string_view text) {
      texts += text;
      ends.push_back(static_cast<std::uint32_t>(texts.size()));
    };
    for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
    for (const auto* word : {"ab", "abc", "a b", "00", "\": ", "\xc3\xa9", "\xa9", "", "<end>"}) add(word);
    const auto end = static_cast<std::int32_t>(ends.size()) - 1;
    return *Vocabulary::make(std::move(texts), std::move(ends), {end});
  }();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto grammar = Grammar::parse(text);
  if (!grammar) {
    if (grammar.error().message.empty()) bug("an error says nothing");
    return 0;
  }
  auto matcher = Matcher::make(vocabulary(), *std::move(grammar));
  if (!matcher) return 0;
  std::size_t at = 0;
  for (int step = 0; step < 40 && !matcher->is_done(); ++step) {
    std::vector<std::int32_t> allowed;
    for (std::size_t id = 0; id < vocabulary().size(); ++id) {
      if ((matcher->allowed()[id / 32] >> id % 32 & 1U) != 0) allowed.push_back(static_cast<std::int32_t>(id));
    }
    if (allowed.empty()) bug("a text is not done, but nothing may follow");
    const auto token = allowed[(data[at++ % size] + static_cast<std::size_t>(step)) % allowed.size()];
    if (!matcher->take(token)) return 0;  // a dead end
  }
  return 0;
}
