// Folds over any dimensions, which sums, maxima, softmax and normalizations have in common: the elements of a line are
// lifted to states, and states are merged until there is one per line.
#pragma once

#include "ops/checks.hpp"
#include "ops/strides.hpp"

namespace nibble::ops {

/// What a fold is, in WGSL, and how its states lie in working memory.
struct Fold {
  std::string_view type;  ///< the line `alias T = …;`: what elements are converted to
  /// S (a state); start(); lift(x, i) and lift4(v, i, step) of one and of four elements, where i is the first one's
  /// number in its line; merge(a, b).
  std::string_view wgsl;
  std::uint8_t lanes = 1;  ///< numbers in a state
  Elem elem = Elem::f32;
};

/// The parameters of all kernels that fold. Lines are what is left when the folded dimensions are taken away.
struct FoldParams {
  std::uint32_t lines = 0;
  std::uint32_t width = 0;  ///< elements in a line
  std::uint32_t parts = 1;  ///< threads that share a line, and so its states
  std::uint32_t kept_rank = 0;
  std::uint32_t folded_rank = 0;
  std::uint32_t neighbours = 0;  ///< 1: neighbouring threads take neighbouring lines, 0: neighbouring elements
  float scalar = 0;              ///< the op's own: a divisor, an epsilon
  std::uint32_t identity = 0;    ///< bits of the value that a fold begins with, where WGSL cannot write it (infinities)
  std::uint32_t inner = 1;       ///< elements between neighbours of a line, where it has one dimension
  std::uint32_t merged = 0;      ///< 1: a line's only state is that of its first part
  std::uint32_t in_quads = 0;    ///< 1: a line is a run of whole vec4s
  std::uint32_t pad = 0;
  Dims kept_sizes{};
  Dims folded_sizes{};
  Dims kept_strides{};
  Dims folded_strides{};
};

using DimSet = std::array<bool, Shape::kMaxRank>;

/// The lines of `self`, and into how many parts they are best cut.
FoldParams fold_params(const OpContext& op, const Tensor& self, const DimSet& is_folded);

/// Declares the working memory that a fold takes at most.
void need_states(OpContext& op, const Tensor& self, const DimSet& is_folded, const Fold& f);

/// Folds `self`: each part of each line gives a state in this node's working memory.
Status fold(OpContext& op, const Tensor& self, const FoldParams& params, const DimSet& is_folded, const Fold& f);

/// Merges each line's states into its first. Wanted before they are read more than once.
Status merge_parts(OpContext& op, FoldParams& params, const Fold& f);
/// Has its pipeline made at load, where the largest call does not need it.
Status prepare_merge(OpContext& op, const FoldParams& params, const Fold& f);

/// Turns each line's states into an element of `out`. `finish` is WGSL: R, what the result is computed in, and
/// finish(s) -> R.
Status finish_lines(OpContext& op, const FoldParams& params, const Fold& f, const Out& out, std::string_view finish);

/// The working memory of a fold, and the line with its state_at(i) and set_state(i, s).
BufferArg states(const OpContext& op, const Fold& f);
std::string_view states_line(const Fold& f);

/// Count, mean and sum of squared distances from the mean: exact also where the mean is far larger than the spread.
extern const Fold kMoments;

}  // namespace nibble::ops
