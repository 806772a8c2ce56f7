// Folds over any dimensions, which sums, maxima, softmax and normalizations have in common: the elements of a line are
// lifted to states, and states are merged until there is one per line.
#pragma once

#include "ops/checks.hpp"
#include "wgsl.hpp"

namespace nibble::ops {

/// What a fold is, and how its states lie in working memory.
struct Fold {
  const Shader* shader = nullptr;    ///< see folds.wgsl
  const Shader* elements = nullptr;  ///< what fills its slot of that name, where it has one
  std::uint8_t lanes = 1;            ///< numbers in a state
  Elem elem = Elem::f32;
};

/// The lines of a tensor: what is left when the folded dimensions are taken away.
struct Lines {
  wgsl::FoldParams params;
  Extent count;
  Extent width;
  std::size_t folded = 0;  ///< dimensions; a line may have fewer, where they are one run
};

Lines lines_of(const Lowering& op, const Tensor& self, const DimSet& is_folded);
/// The same of a tensor that is seen in another shape, whose largest is `bound`.
Lines lines_of(const Lowering& op, const Tensor& self, const Shape& shape, const Shape& bound, const DimSet& is_folded);

// With 64K threads every GPU is full. A CPU adapter has a few cores, each of which runs several threads at once. The
// rows of these tiles are the states that threads make at once.
constexpr Tile kForCores{.rows = 128, .threads = 1};
constexpr Tile kForLanes{.rows = 65536, .threads = 1};
/// Into how many parts lines are cut.
extern const Choice kFold;

/// Folds `self`: each part of each line gives a state in this node's working memory.
Status fold(Lowering& op, const Tensor& self, Lines& lines, const Fold& f, const Variant& variant);
/// With the variant that kFold gives.
Status fold(Lowering& op, const Tensor& self, Lines& lines, const Fold& f);

/// Merges each line's states into its first. Wanted before they are read more than once.
Status merge_parts(Lowering& op, wgsl::FoldParams& params, const Fold& f);

/// Turns each line's states into an element of `out`. `finish` is one of the modules in fold_finish.wgsl.
Status finish_lines(Lowering& op, const wgsl::FoldParams& params, const Fold& f, const Out& out, const Shader& finish);

/// Has the working memory of a fold and fills the slots of kernels that use it.
void add_states(Kernel& kernel, const Fold& f);

/// Count, mean and sum of squared distances from the mean.
extern const Fold kMoments;

}  // namespace nibble::ops
