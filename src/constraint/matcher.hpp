// Follows a text through a grammar, and says which tokens may come next.
//
// Where a text stands in a grammar is a set of stacks: the place in the rule that is being read, below it the place to
// which that rule returns, and so on. Stacks, and sets of them, are kept once each and known by numbers, and so is to
// which set a byte leads. Most of what all the tokens of a vocabulary try was tried before, so that this is a look into
// a table.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "constraint/grammar.hpp"
#include "constraint/numbering.hpp"
#include "constraint/vocabulary.hpp"

namespace nibble::constraint {

class Matcher {
 public:
  /// An error if no token can begin what the grammar wants. The vocabulary must outlive it.
  static Result<Matcher> make(const Vocabulary& vocabulary, Grammar grammar);

  /// A bit for each token that may come next, until the next call. Where the text may end, stop tokens may come.
  std::span<const std::uint32_t> allowed() const { return allowed_; }
  /// Whether nothing can follow but the end.
  bool is_done() const { return is_done_; }
  /// The text goes on with this token. An error if that is not allowed, or if nothing is from there on.
  Status take(std::int32_t token);

 private:
  using Set = std::uint32_t;
  struct Stack {
    Grammar::Node top = 0;
    std::uint32_t below = 0;  ///< a stack
  };

  Matcher(const Vocabulary& vocabulary, Grammar grammar);

  void find_classes();
  std::uint32_t pushed(Grammar::Node top, std::uint32_t below);
  Set closed();
  Set step(Set set, std::uint8_t byte);
  bool may_end(Set set) const;
  std::span<const std::uint32_t> stacks_of(Set set) const;
  void forget_others();
  Status find_allowed();

  const Vocabulary* vocabulary_;
  Grammar grammar_;
  std::vector<bool> is_end_;  ///< per node
  // Bytes that all edges treat alike are of one class.
  std::array<std::uint8_t, 256> classes_{};
  std::size_t class_count_ = 0;

  std::vector<Stack> stacks_;
  Numbering stack_numbers_;
  std::vector<std::uint32_t> members_;  ///< the stacks of all sets
  std::vector<std::size_t> ends_;       ///< per set: where its stacks end
  Numbering set_numbers_;
  std::vector<Set> next_;  ///< per set and class of bytes

  std::vector<std::uint32_t> open_;   ///< stacks whose tops are still to be looked at
  std::vector<std::uint32_t> found_;  ///< the stacks of the next set
  std::vector<std::uint32_t> seen_;   ///< per stack: in which round
  std::uint32_t round_ = 0;
  bool is_too_complex_ = false;

  Set now_ = 0;
  std::vector<Set> path_;  ///< after each byte of a token
  std::vector<std::uint32_t> allowed_;
  bool is_done_ = false;
};

}  // namespace nibble::constraint
