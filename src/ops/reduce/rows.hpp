// Ops that fold each line and then make every element anew from the result: softmax and the normalizations.
#pragma once

#include "ops/fold.hpp"

namespace nibble::ops {

struct RowsOp {
  Fold fold;
  /// WGSL: done(s) -> vec2<f32>, made once of a line's state; apply(x, d, i) and apply4(v, d, quad), which make the
  /// i-th element of a line, and the quad-th four of them.
  std::string_view apply;
  /// WGSL that `apply` needs beside it.
  std::string_view more = "";
};

/// What the elements are multiplied with and what is added to them, where an op has that: bound as "weight", "bias".
struct Affine {
  std::optional<Tensor> weight;
  std::optional<Tensor> bias;
};

/// True where a workgroup should take a whole line, and folds and applies in one dispatch: not where a line is long and
/// almost alone, because then more threads than a workgroup has should share it.
bool suits_groups(const OpContext& op, const FoldParams& params);

/// One dispatch: needs suits_groups(). `bind` has the source as "source" and the result as "result"; `load` is WGSL:
/// first4(i) and again4(i), the i-th four elements of the source when they are seen for the first and second time.
/// `widest`: of any call.
Status rows_in_groups(OpContext& op, const Bindings& bind, std::int64_t widest, const FoldParams& params,
                      const RowsOp& rows, std::string_view load, bool only_prepares = false);

/// Folds and applies. Where `keep_states`, the states are left in working memory, merged.
Status rows(OpContext& op, const Tensor& self, const Affine& affine, const DimSet& is_folded, FoldParams& params,
            const Out& out, const RowsOp& rows, bool keep_states = false);

}  // namespace nibble::ops
