#include "constraint/grammar_text.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace nibble::constraint {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_of_name(char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '_'; }
bool is_surrogate(std::uint32_t character) { return character >= 0xd800 && character < 0xe000; }

int value_of_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

std::string encoded(std::uint32_t character) {
  const int more = character < 0x80 ? 0 : character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
  constexpr std::array<std::uint32_t, 4> kFirst{0, 0xc0, 0xe0, 0xf0};
  std::string bytes{static_cast<char>(kFirst[static_cast<std::size_t>(more)] | character >> 6 * more)};
  for (int i = more - 1; i >= 0; --i) bytes.push_back(static_cast<char>(0x80U | (character >> 6 * i & 0x3fU)));
  return bytes;
}

void GrammarText::fail(std::initializer_list<generate::Piece> sentence) {
  if (!error_) error_ = generate::refuse(sentence).error();
}

void GrammarText::fail_at(std::size_t at, std::initializer_list<generate::Piece> sentence) {
  if (error_) return;
  const auto line = 1 + std::ranges::count(text_.substr(0, at), '\n');
  const auto what = generate::refuse(sentence).error().message;
  fail({"line ", std::int64_t{line}, " of the grammar: ", std::string_view(what)});
}

bool GrammarText::take(std::string_view what) {
  if (!is_next(what)) return false;
  at_ += what.size();
  return true;
}

void GrammarText::skip() {
  bool is_comment = false;
  for (; at_ < text_.size(); ++at_) {
    const char c = peek();
    is_comment = c == '#' || (is_comment && c != '\n');
    if (!is_comment && c != ' ' && c != '\t' && c != '\n' && c != '\r') return;
  }
}

bool GrammarText::is_at_name() const { return is_of_name(peek()); }

std::string_view GrammarText::take_name() {
  const auto begin = at_;
  while (is_at_name()) ++at_;
  return text_.substr(begin, at_ - begin);
}

bool GrammarText::is_at_rule() {
  const auto before = at_;
  const bool has_name = !take_name().empty();
  skip();
  const bool is_rule = has_name && take("::=");
  at_ = before;
  return is_rule;
}

std::optional<std::size_t> GrammarText::take_number(std::size_t most) {
  if (!is_digit(peek())) return {};
  std::size_t value = 0;
  for (; is_digit(peek()); ++at_) value = std::min(value * 10 + static_cast<std::size_t>(peek() - '0'), most);
  return value;
}

std::uint32_t GrammarText::take_character() {
  if (!take("\\")) return take_plain_character();
  const char c = peek();
  if (!is_at_end()) ++at_;
  switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'x': return take_hexadecimal(2);
    case 'u': return take_hexadecimal(4);
    case 'U': return take_hexadecimal(8);
    default: break;
  }
  if (c <= ' ' || c > '~' || is_letter(c) || is_digit(c)) fail_here("there is no such escape");
  return static_cast<std::uint32_t>(c);
}

std::uint32_t GrammarText::take_hexadecimal(int digits) {
  std::uint32_t value = 0;
  for (int i = 0; i < digits; ++i, ++at_) {
    const int digit = value_of_digit(peek());
    if (digit < 0) return fail_here("an escape has too few digits"), 0;
    value = value << 4 | static_cast<std::uint32_t>(digit);
  }
  if (value > kLastCharacter || is_surrogate(value)) return fail_here("an escape is no character"), 0;
  return value;
}

std::uint32_t GrammarText::take_plain_character() {
  if (is_at_end()) return fail_here("it ends within a text or a class"), 0;
  const auto first = static_cast<unsigned char>(text_[at_]);
  const std::size_t more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
  const auto bytes = text_.substr(at_, more + 1);
  std::uint32_t value = more == 0 ? first : first & (0x3fU >> more);
  for (const char byte : bytes.substr(1)) value = value << 6 | (static_cast<unsigned char>(byte) & 0x3fU);
  if (value > kLastCharacter || is_surrogate(value) || encoded(value) != bytes) {
    return fail_here("it is not UTF-8"), 0;
  }
  at_ += bytes.size();
  return value;
}

}  // namespace nibble::constraint
