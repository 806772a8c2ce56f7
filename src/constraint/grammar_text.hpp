// The text of a grammar, piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "generate/sentence.hpp"

namespace nibble::constraint {

inline constexpr std::uint32_t kLastCharacter = 0x10ffff;

/// The bytes of a character, as many as it has.
std::string encoded(std::uint32_t character);

/// What is taken is gone. After the first error, nothing that it gives counts.
class GrammarText {
 public:
  explicit GrammarText(std::string_view text) : text_(text) {}

  std::size_t place() const { return at_; }
  bool is_at_end() const { return at_ == text_.size(); }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool is_next(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool take(std::string_view what);
  /// Spaces, ends of lines and comments.
  void skip();
  std::string_view take_name();
  /// Whether what comes next is the name of a rule.
  bool is_at_name() const;
  /// Whether it is a name and ::=, with which a rule begins.
  bool is_at_rule();
  /// At most `most`.
  std::optional<std::size_t> take_number(std::size_t most);
  /// A character of a text or a class: as it stands, or as an escape says.
  std::uint32_t take_character();

  bool has_failed() const { return error_.has_value(); }
  const std::optional<Error>& error() const { return error_; }
  void fail(std::initializer_list<generate::Piece> sentence);
  void fail_at(std::size_t at, std::initializer_list<generate::Piece> sentence);
  void fail_here(std::string_view what) { fail_at(at_, {what}); }

 private:
  std::uint32_t take_hexadecimal(int digits);
  std::uint32_t take_plain_character();

  std::string_view text_;
  std::size_t at_ = 0;
  std::optional<Error> error_;
};

}  // namespace nibble::constraint
