// What ops that move elements without looking at them have in common.
#pragma once

#include "ops/checks.hpp"
#include "wgsl.hpp"

namespace nibble::ops {

/// Types of one width are moved alike, so they share pipelines. float16 stays float16: a half of a word has no loads
/// of its own, and its way through float32 and back changes no bit of a number.
inline BufferArg moved(const BufferArg& arg) {
  switch (arg.format.elem) {
    case Elem::f16: return arg;
    case Elem::f32:
    case Elem::i32: return arg.raw(Elem::i32);
    default: return arg.raw(Elem::u8);
  }
}

/// What loads of such elements give.
inline const Shader& moved_type(DType dtype) { return dtype == DType::f16 ? wgsl::floats : wgsl::ints; }

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

/// How many neighbouring vec4s a thread moves, where runs of `run` elements are whole ones.
std::uint32_t vectors_per_thread(Lowering& op, std::int64_t run);

/// How an output walks through a source, and perhaps through indices (the other strides): outermost dimension first. A
/// dimension of one is left out, and neighbours that make one run are merged. Tiling makes two dimensions of each, so
/// there are up to 16.
struct Walk {
  static constexpr std::size_t kMaxRank = 2 * Shape::kMaxRank;

  std::int64_t first = 0;
  Shape shape{};     ///< of the output
  bool fits = true;  ///< it has no more dimensions than a shape may have
  std::size_t rank = 0;
  std::array<std::int64_t, kMaxRank> sizes{};
  std::array<std::int64_t, kMaxRank> strides{};
  std::array<std::int64_t, kMaxRank> other_strides{};

  /// The next dimension of the output.
  void add(std::int64_t size, std::int64_t stride, std::int64_t other_stride = 0) {
    fits = shape.push_back(size) && fits;
    step(size, stride, other_stride);
  }
  /// A part of a dimension of the output.
  void step(std::int64_t size, std::int64_t stride, std::int64_t other_stride = 0);

  /// The dimension along which the source runs in vec4s, if the output runs along another and both sides can be cut
  /// into blocks of four by four.
  std::optional<std::size_t> source_run() const;
  /// Whether every run consists of whole vec4s of the source.
  bool is_whole_vectors() const;
};

/// As in coordinates.wgsl.
struct WalkParams {
  using Dims = std::array<std::uint32_t, Walk::kMaxRank>;

  std::uint32_t threads = 0;
  std::uint32_t count = 0;
  std::uint32_t first = 0;
  std::uint32_t rank = 1;
  std::uint32_t vectors = 0;
  std::uint32_t rows = 0;
  std::uint32_t row_stride = 0;
  std::uint32_t other_row_stride = 0;
  std::uint32_t node = 0;
  std::uint32_t site = 0;
  std::uint32_t is_first = 0;
  std::uint32_t pad = 0;
  Dims sizes{1};
  Dims strides{};
  Dims other_strides{};
};

WalkParams walk_params(Lowering& op, const Walk& walk, bool in_vectors);

}  // namespace nibble::ops
