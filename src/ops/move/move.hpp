// What ops that make tensors without computing on elements have in common.
#pragma once

#include "ops/checks.hpp"
#include "wgsl.hpp"

namespace nibble::ops {

/// Element i of `out`, whose shape is set, becomes start + i * step.
Status fill(Lowering& op, const Out& out, const Number& start, const Number& step = {0, true, 0});

/// Converts or copies `in` to `out`, which has the same shape; nothing to do where both are one storage.
Status convert(Lowering& op, const Tensor& in, const Out& out);

/// Depth to space; the types of both are the same.
Status pixel_shuffle(Lowering& op, const Tensor& self, std::int64_t factor, Out& out);

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

/// How many neighbouring vec4s a thread moves, where runs of `run` elements are whole ones.
std::uint32_t vectors_per_thread(Lowering& op, std::int64_t run);

/// How an output walks through a source, and perhaps through indices (the other strides): outermost dimension first.
/// Tiling makes two dimensions of each, so there are up to 16.
struct Walk {
  struct Dim {
    std::int64_t size = 1;
    std::int64_t stride = 0;
    std::int64_t other_stride = 0;
  };

  std::int64_t first = 0;
  Shape shape{};     ///< of the output
  bool fits = true;  ///< it has no more dimensions than a shape may have
  InlineVector<Dim, 2 * Shape::kMaxRank> dims{};

  Walk() = default;
  /// Through all of a contiguous tensor, in order.
  explicit Walk(const Shape& source);

  /// The next dimension of the output.
  void add(const Dim& dim) {
    fits = shape.push_back(dim.size) && fits;
    dims.push_back(dim);
  }
  /// Only `length` entries of a dimension, from `start` on.
  void cut(std::size_t dim, std::int64_t start, std::int64_t length, std::int64_t step);
  /// Leaves out dimensions of one, and joins neighbours that make one run.
  void merge();

  /// The dimension along which the source runs in vec4s, if the output runs along another and both sides can be cut
  /// into blocks of four by four.
  std::optional<std::size_t> source_run() const;
  /// Whether every run consists of whole vec4s of the source.
  bool is_whole_vectors() const;
};

/// Of a merged walk.
wgsl::WalkParams walk_params(Lowering& op, const Walk& walk, bool in_vectors);

}  // namespace nibble::ops
