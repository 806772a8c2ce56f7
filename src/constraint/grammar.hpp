// What a text must look like: rules as GBNF writes them, the notation of llama.cpp, made into graphs that read bytes.
//
//   root   ::= "yes" | "no" reason?     # the text is what `root` stands for
//   reason ::= ", " [a-z]{1,9} ("." | [^.])*
//
// Texts in quotes, classes of characters in brackets, `.` for any character, names of rules, parentheses; after each of
// them `*`, `+`, `?`, `{2}`, `{2,}` or `{2,5}`. A rule ends where the next begins, and a comment with its line. Escapes
// are \n, \r, \t, \xHH, \uHHHH, \UHHHHHHHH, and a backslash before any character that is no letter or digit.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "nibble/types.hpp"

namespace nibble::constraint {

/// A graph for each rule: whoever goes along edges from its start to its end has read what it stands for.
struct Grammar {
  using Node = std::uint32_t;

  struct Edge {
    enum class Kind : std::uint8_t { nothing, byte, rule };
    Kind kind = Kind::nothing;  ///< what is read on the way
    std::uint8_t low = 0;       ///< a byte from this one to that one
    std::uint8_t high = 0;
    std::uint32_t rule = 0;
    Node to = 0;
  };

  struct Rule {
    Node start = 0;
    Node end = 0;
  };

  /// A text that is no grammar is an error, and so is a rule that begins with itself: it would be read for ever.
  static Result<Grammar> parse(std::string_view text);

  std::vector<std::vector<Edge>> nodes;
  std::vector<Rule> rules;
  std::uint32_t root = 0;
};

}  // namespace nibble::constraint
