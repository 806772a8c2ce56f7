// Gives equal things the same number.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace nibble::constraint {

/// A hash table of numbers. What they stand for is kept by its owner.
class Numbering {
 public:
  /// The number of the thing that has this hash, and of which `is_it(number)` says that it is it; otherwise `added`,
  /// which it has from now on.
  template <typename IsIt>
  std::uint32_t find_or_add(std::uint32_t hash, std::uint32_t added, IsIt is_it) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    auto i = hash;
    for (;; ++i) {
      auto& slot = slots_[i & (slots_.size() - 1)];
      if (slot.number == kNone) {
        slot = {hash, added};
        ++count_;
        return added;
      }
      if (slot.hash == hash && is_it(slot.number)) return slot.number;
    }
  }

  void clear() {
    slots_.clear();
    count_ = 0;
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;

  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t number = kNone;
  };

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    std::swap(old, slots_);
    for (const auto& slot : old) {
      auto i = slot.hash;
      while (slot.number != kNone && slots_[i & (slots_.size() - 1)].number != kNone) ++i;
      if (slot.number != kNone) slots_[i & (slots_.size() - 1)] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

/// Mixes a number into a hash.
inline std::uint32_t mixed(std::uint32_t hash, std::uint32_t number) {
  hash = (hash ^ number) * 0x9e3779b1U;
  return hash ^ hash >> 15;
}

}  // namespace nibble::constraint
