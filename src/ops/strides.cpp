#include "ops/strides.hpp"

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

std::uint32_t collapse_broadcast(const Shape& out, const Shape& a, const Shape& b, Dims& sizes, Dims& a_strides,
                                 Dims& b_strides) {
  // Built innermost first, then turned round.
  std::uint32_t rank = 0;
  std::uint32_t a_next = 1;
  std::uint32_t b_next = 1;
  for (std::size_t i = out.rank(); i-- > 0;) {
    if (out[i] == 1) continue;
    const auto size = static_cast<std::uint32_t>(out[i]);
    const bool a_moves = padded_dim(a, i, out.rank()) != 1;
    const bool b_moves = padded_dim(b, i, out.rank()) != 1;
    const std::uint32_t a_stride = a_moves ? a_next : 0;
    const std::uint32_t b_stride = b_moves ? b_next : 0;
    const bool merges = rank > 0 && a_stride == a_strides[rank - 1] * sizes[rank - 1] &&
                        b_stride == b_strides[rank - 1] * sizes[rank - 1];
    if (merges) {
      sizes[rank - 1] *= size;
    } else {
      sizes[rank] = size;
      a_strides[rank] = a_stride;
      b_strides[rank] = b_stride;
      ++rank;
    }
    if (a_moves) a_next *= size;
    if (b_moves) b_next *= size;
  }
  std::reverse(sizes.begin(), sizes.begin() + rank);
  std::reverse(a_strides.begin(), a_strides.begin() + rank);
  std::reverse(b_strides.begin(), b_strides.begin() + rank);
  return rank;
}

}  // namespace nibble::ops
