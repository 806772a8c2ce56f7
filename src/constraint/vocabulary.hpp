// The bytes of all tokens, and an order in which those that begin alike follow each other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nibble/types.hpp"

namespace nibble::constraint {

class Vocabulary {
 public:
  /// `texts` holds the bytes of all tokens, one after the other, and `ends` where each of them ends. Tokens without
  /// bytes are part of no text, and nor are `stop_ids`, which end one.
  static Result<Vocabulary> make(std::string texts, std::vector<std::uint32_t> ends,
                                 std::vector<std::int32_t> stop_ids);

  /// A token, and with how many bytes of the one before it in the order its own begin.
  struct Entry {
    std::uint32_t id = 0;
    std::uint32_t shared = 0;
  };

  std::size_t size() const { return ends_.size(); }
  std::string_view text_of(std::size_t id) const;
  std::span<const Entry> order() const { return order_; }
  std::span<const std::int32_t> stop_ids() const { return stop_ids_; }

 private:
  std::string texts_;
  std::vector<std::uint32_t> ends_;
  std::vector<std::int32_t> stop_ids_;
  std::vector<Entry> order_;
};

}  // namespace nibble::constraint
