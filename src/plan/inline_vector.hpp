// A list that stores up to N items in itself. Further items are dropped, and overflowed() is then true, in every build.
// Check it before you use the list.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace nibble {

template <class T, std::size_t N>
class InlineVector {
 public:
  constexpr InlineVector() = default;
  constexpr InlineVector(std::initializer_list<T> items) {
    for (const auto& item : items) push_back(item);
  }

  constexpr void push_back(const T& item) {
    if (size_ == N) {
      overflowed_ = true;
    } else {
      items_[size_++] = item;
    }
  }

  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  /// Whether items were dropped.
  constexpr bool overflowed() const { return overflowed_; }
  constexpr const T* begin() const { return items_.data(); }
  constexpr const T* end() const { return items_.data() + size_; }
  constexpr std::span<const T> all() const { return {items_.data(), size_}; }
  /// An index of N or more gives the item at N - 1.
  constexpr const T& operator[](std::size_t i) const { return items_[i < N ? i : N - 1]; }
  constexpr T& operator[](std::size_t i) { return items_[i < N ? i : N - 1]; }

  friend constexpr bool operator==(const InlineVector& a, const InlineVector& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i) {
      if (!(a.items_[i] == b.items_[i])) return false;
    }
    return true;
  }

 private:
  std::array<T, N> items_{};
  std::uint32_t size_ = 0;
  bool overflowed_ = false;
};

}  // namespace nibble
