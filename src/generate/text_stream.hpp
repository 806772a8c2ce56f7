// Tokens are bytes; what a reader gets is text. Hands out whole UTF-8 characters only, and nothing of a stop string or
// of what may become one.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nibble/types.hpp"

namespace nibble::generate {

/// What comes out does not depend on how the bytes are cut into tokens. Bytes that are no UTF-8 become U+FFFD, one for
/// each longest beginning of a character, as Unicode recommends. Takes time in proportion to the bytes.
class TextStream {
 public:
  /// An empty stop string is an error, and one that is no UTF-8.
  static Result<TextStream> make(std::vector<std::string> stops = {});

  /// Takes a token's bytes; gives the text that can be handed out now, until the next call. After a stop string it is
  /// always empty.
  std::string_view push(std::string_view bytes);
  /// The rest, when no more tokens come.
  std::string_view finish();

  /// Which stop string ended the text: the one that is complete first, of several the longest. It is not handed out.
  std::optional<std::size_t> stopped() const { return stopped_; }

 private:
  struct Stop {
    std::string text;
    std::vector<std::size_t> borders;  ///< per length of a beginning: the longest shorter one that it ends with
    std::size_t matched = 0;           ///< how long a beginning the text ends with
  };

  void take(char byte);
  void end_character(bool is_whole);
  void match(char byte);

  std::vector<Stop> stops_;
  std::optional<std::size_t> stopped_;
  std::size_t holder_ = 0;  ///< the text that is held back is the beginning of this stop string
  std::string out_;
  // The character that is being read: its bytes so far, how many it has, and which the next may be.
  std::array<char, 4> character_{};
  std::size_t length_ = 0;
  std::size_t wanted_ = 0;
  unsigned char lowest_ = 0x80;
  unsigned char highest_ = 0xbf;
};

}  // namespace nibble::generate
