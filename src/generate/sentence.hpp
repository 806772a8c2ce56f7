// Words and numbers as one sentence. {fmt} would be most of a module of this room alone.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "nibble/types.hpp"

namespace nibble::generate {

/// A piece of a sentence.
class Piece {
 public:
  // NOLINTBEGIN(google-explicit-constructor): a sentence is a list of what it says
  Piece(const char* text) : text_(text) {}
  Piece(std::string_view text) : text_(text) {}
  Piece(std::int64_t number) : kind_(Kind::integer), integer_(number) {}
  Piece(std::int32_t number) : Piece(std::int64_t{number}) {}
  Piece(std::size_t number) : Piece(static_cast<std::int64_t>(number)) {}
  Piece(double number) : kind_(Kind::real), real_(number) {}
  // NOLINTEND(google-explicit-constructor)

  void append_to(std::string& text) const;

 private:
  enum class Kind : std::uint8_t { text, integer, real };
  Kind kind_ = Kind::text;
  std::string_view text_;
  std::int64_t integer_ = 0;
  double real_ = 0;
};

std::unexpected<Error> refuse(ErrorCode code, std::initializer_list<Piece> sentence);
inline std::unexpected<Error> refuse(std::initializer_list<Piece> sentence) {
  return refuse(ErrorCode::invalid_argument, sentence);
}

}  // namespace nibble::generate
