// One function per op; its story is in the .cpp of its family.
#pragma once

#include "plan/op_context.hpp"

namespace nibble::ops {

Status embedding_q4gsw(OpContext& op);
Status embedding(OpContext& op);

Status add(OpContext& op);
Status sub(OpContext& op);
Status mul(OpContext& op);
Status div(OpContext& op);

Status mean(OpContext& op);
Status sum(OpContext& op);

Status to_copy(OpContext& op);
Status to_dim_order_copy(OpContext& op);

Status prepack(OpContext& op);
Status clone(OpContext& op);
Status clone_dim_order(OpContext& op);
Status view(OpContext& op);
Status squeeze(OpContext& op);
Status squeeze_dim(OpContext& op);
Status unsqueeze(OpContext& op);

Status sym_size(OpContext& op);
Status select_as_symint(OpContext& op);
Status sym_add(OpContext& op);
Status sym_sub(OpContext& op);
Status sym_mul(OpContext& op);
Status sym_floordiv(OpContext& op);

/// Converts or copies `in` to `out`, which has the same shape; nothing to do where both are one storage.
Status convert(OpContext& op, const Tensor& in, const Out& out);

}  // namespace nibble::ops
