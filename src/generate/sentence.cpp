#include "generate/sentence.hpp"

#include <algorithm>

namespace nibble::generate {
namespace {

void append_digits(std::string& text, std::uint64_t number) {
  const auto begin = text.size();
  do {
    text.push_back(static_cast<char>('0' + number % 10));
    number /= 10;
  } while (number != 0);
  std::reverse(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end());
}

void append_integer(std::string& text, std::int64_t number) {
  if (number < 0) text.push_back('-');
  const auto bits = static_cast<std::uint64_t>(number);
  append_digits(text, number < 0 ? ~bits + 1 : bits);
}

/// Six decimals, of a number that is brought to [1, 10) where it is very large or small: enough to know it again.
void append_real(std::string& text, double number) {
  if (number != number) return void(text += "NaN");
  if (number < 0) text.push_back('-');
  number = number < 0 ? -number : number;
  if (number > 1.7976931348623157e308) return void(text += "infinity");
  std::int64_t exponent = 0;
  if (number >= 1e9 || (number != 0 && number < 1e-3)) {
    for (; number >= 10; ++exponent) number /= 10;
    for (; number < 1; --exponent) number *= 10;
  }
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): six digits for people need no exact halves
  const auto millionths = static_cast<std::uint64_t>(number * 1e6 + 0.5);
  append_digits(text, millionths / 1000000);
  if (auto rest = millionths % 1000000; rest != 0) {
    text.push_back('.');
    for (std::uint64_t place = 100000; rest != 0; place /= 10) {
      text.push_back(static_cast<char>('0' + rest / place));
      rest %= place;
    }
  }
  if (exponent == 0) return;
  text.push_back('e');
  append_integer(text, exponent);
}

}  // namespace

void Piece::append_to(std::string& text) const {
  if (kind_ == Kind::text) text += text_;
  if (kind_ == Kind::integer) append_integer(text, integer_);
  if (kind_ == Kind::real) append_real(text, real_);
}

std::unexpected<Error> refuse(ErrorCode code, std::initializer_list<Piece> sentence) {
  Error error{code, {}};
  for (const auto& piece : sentence) piece.append_to(error.message);
  return std::unexpected(std::move(error));
}

}  // namespace nibble::generate
