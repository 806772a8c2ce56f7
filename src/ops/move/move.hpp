// What kernels that move elements without looking at them have in common.
#pragma once

#include "plan/op_context.hpp"

namespace nibble::ops {

/// Types of one width are moved alike, so they share pipelines. float16 stays float16: a half of a word has no loads
/// of its own, and its way through float32 and back changes no bit of a number.
inline Elem moved_as(DType dtype) {
  switch (size_of(dtype)) {
    case 1: return Elem::u8;
    case 2: return Elem::f16;
    default: return Elem::i32;
  }
}

/// The WGSL line that names the type which loads of such elements give.
inline std::string_view moved_type(DType dtype) { return size_of(dtype) == 2 ? "alias T = f32;" : "alias T = i32;"; }

/// A product that wraps instead of overflowing: sizes beside a dimension of zero may be absurd.
inline std::int64_t wrapping_product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

/// Distances between neighbours along each dimension of a contiguous tensor, in elements.
inline std::array<std::int64_t, Shape::kMaxRank> contiguous_strides(const Shape& shape) {
  std::array<std::int64_t, Shape::kMaxRank> strides{};
  std::int64_t next = 1;
  for (std::size_t i = shape.rank(); i-- > 0;) {
    strides[i] = next;
    next = wrapping_product(next, shape[i]);
  }
  return strides;
}

/// How many neighbouring vec4s a thread moves, where runs of `run` elements are whole ones: a GPU wants neighbouring
/// lanes to touch neighbouring addresses, a CPU adapter saves threads and index arithmetic (1.7 times as fast on both
/// software ones).
inline std::uint32_t vectors_per_thread(const OpContext& op, std::int64_t run) {
  return op.profile().kind == AdapterKind::cpu && run % 16 == 0 ? 4 : 1;
}

inline std::uint32_t quads_of(const Shape& shape) {
  return static_cast<std::uint32_t>(Size::of(shape).div_up(4).unchecked());
}

}  // namespace nibble::ops
