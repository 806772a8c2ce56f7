// Index arithmetic of kernels that find elements by strides.
#pragma once

#include <optional>

#include "graph/size.hpp"
#include "plan/inline_vector.hpp"

namespace nibble {

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
  /// Through all of a contiguous tensor, in order. Where it has fewer dimensions than `rank`, those in front are one.
  explicit Walk(const Shape& source, std::size_t rank = 0);

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

}  // namespace nibble
