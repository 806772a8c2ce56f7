#include "ops/elementwise/strides.hpp"

#include <algorithm>

namespace nibble::ops {
namespace {

std::int64_t padded_dim(const Shape& s, std::size_t i, std::size_t rank) {
  const std::size_t missing = rank - s.rank();
  return i < missing ? 1 : s[i - missing];
}

}  // namespace

bool broadcast(const Shape& a, const Shape& b, Shape& out) {
  const std::size_t rank = std::max(a.rank(), b.rank());
  out = {};
  for (std::size_t i = 0; i < rank; ++i) {
    const auto x = padded_dim(a, i, rank);
    const auto y = padded_dim(b, i, rank);
    if (x != y && x != 1 && y != 1) return false;
    out.push_back(x == 1 ? y : x);
  }
  return true;
}

std::uint32_t collapse_broadcast(const Shape& out, std::span<const Shape> operands, Dims& sizes,
                                 std::span<Dims> strides) {
  // Built innermost first, then turned round.
  std::uint32_t rank = 0;
  std::array<std::uint32_t, kMostOperands> next;
  next.fill(1);
  for (std::size_t i = out.rank(); i-- > 0;) {
    if (out[i] == 1) continue;
    const auto size = static_cast<std::uint32_t>(out[i]);
    std::array<std::uint32_t, kMostOperands> stride{};
    bool merges = rank > 0;
    for (std::size_t o = 0; o < operands.size(); ++o) {
      const bool moves = padded_dim(operands[o], i, out.rank()) != 1;
      stride[o] = moves ? next[o] : 0;
      if (moves) next[o] *= size;
      merges = merges && stride[o] == strides[o][rank - 1] * sizes[rank - 1];
    }
    if (merges) {
      sizes[rank - 1] *= size;
      continue;
    }
    sizes[rank] = size;
    for (std::size_t o = 0; o < operands.size(); ++o) strides[o][rank] = stride[o];
    ++rank;
  }
  std::reverse(sizes.begin(), sizes.begin() + rank);
  for (Dims& s : strides) std::reverse(s.begin(), s.begin() + rank);
  return rank;
}

}  // namespace nibble::ops
