// Ops that fold each line and then make every element anew from the result: softmax and the normalizations.
#pragma once

#include "ops/reduce/fold.hpp"

namespace nibble::ops {

/// The elements are sums, which are made too.
struct Terms {
  const Tensor& b;
  const Out& sum;
};

struct RowsOp {
  Fold fold;
  Slots slots;  ///< "apply" is one of the modules in rows.wgsl; and what it needs
  std::optional<Tensor> weight{};
  std::optional<Tensor> bias{};
  bool keeps_states = false;  ///< they are left in working memory, merged
  const Terms* terms = nullptr;
};

/// Who folds a line, and who makes it anew.
extern const Choice kRows;

/// Folds and applies. `self`, whose lines they are, is also the first term where there are terms.
Status rows(Lowering& op, const RowsOp& rows, const Tensor& self, Lines& lines, const Out& out);

}  // namespace nibble::ops
