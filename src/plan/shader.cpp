#include "plan/shader.hpp"

#include <algorithm>

namespace nibble {

void write_words(std::string& out, std::string_view text, std::span<const Word> words) {
  // A call may write a chain's text again, so what lies between words is copied at once.
  while (!text.empty()) {
    const auto capital = std::ranges::find_if(text.substr(1), [](char c) { return c >= 'A' && c <= 'Z'; });
    const auto next = static_cast<std::size_t>(capital - text.begin());
    const auto found = std::ranges::find_if(words, [&](const Word& word) { return text.starts_with(word.first); });
    if (found == words.end()) {
      out += text.substr(0, next);
      text.remove_prefix(next);
    } else {
      out += found->second;
      text.remove_prefix(found->first.size());
    }
  }
}

}  // namespace nibble
