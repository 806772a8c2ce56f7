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

Status linear_q4gsw(OpContext& op);
Status linear_qcs4w(OpContext& op);
Status linear_dq8ca_q4gsw(OpContext& op);
Status round_rows(OpContext& op);
Status linear_q4gsw_parts(OpContext& op);
Status linear_q4gsw_gated(OpContext& op);
Status linear(OpContext& op);
Status mm(OpContext& op);
Status bmm(OpContext& op);
Status addmm(OpContext& op);

Status mean(OpContext& op);
Status sum(OpContext& op);
Status var(OpContext& op);
Status var_correction(OpContext& op);
Status amax(OpContext& op);
Status amin(OpContext& op);
Status argmax(OpContext& op);
Status argmin(OpContext& op);
Status softmax(OpContext& op);
Status log_softmax(OpContext& op);
Status rms_norm(OpContext& op);
Status add_rms_norm(OpContext& op);
Status native_layer_norm(OpContext& op);
Status choose_qparams_affine(OpContext& op);

Status to_copy(OpContext& op);
Status to_dim_order_copy(OpContext& op);

Status prepack(OpContext& op);
Status clone(OpContext& op);
Status clone_dim_order(OpContext& op);
Status view(OpContext& op);
Status squeeze(OpContext& op);
Status squeeze_dim(OpContext& op);
Status unsqueeze(OpContext& op);

Status slice(OpContext& op);
Status select(OpContext& op);
Status permute(OpContext& op);
Status transpose(OpContext& op);
Status transpose_matrix(OpContext& op);
Status expand(OpContext& op);
Status repeat(OpContext& op);
Status repeat_interleave(OpContext& op);
Status flip(OpContext& op);
Status split_with_sizes(OpContext& op);
Status unfold(OpContext& op);
Status pixel_shuffle(OpContext& op);
Status constant_pad(OpContext& op);
Status cat(OpContext& op);
Status index(OpContext& op);
Status index_select(OpContext& op);
Status gather(OpContext& op);

Status sym_size(OpContext& op);
Status select_as_symint(OpContext& op);
Status sym_add(OpContext& op);
Status sym_sub(OpContext& op);
Status sym_mul(OpContext& op);
Status sym_floordiv(OpContext& op);

Status abs(OpContext& op);
Status neg(OpContext& op);
Status exp(OpContext& op);
Status sqrt(OpContext& op);
Status rsqrt(OpContext& op);
Status log10(OpContext& op);
Status sin(OpContext& op);
Status cos(OpContext& op);
Status tan(OpContext& op);
Status round(OpContext& op);
Status relu(OpContext& op);
Status relu6(OpContext& op);
Status sigmoid(OpContext& op);
Status tanh(OpContext& op);
Status hardsigmoid(OpContext& op);
Status hardswish(OpContext& op);
Status gelu(OpContext& op);
Status hardtanh(OpContext& op);
Status clamp(OpContext& op);
Status hardshrink(OpContext& op);
Status leaky_relu(OpContext& op);
Status pow_scalar(OpContext& op);
Status bitwise_not(OpContext& op);
Status logical_not(OpContext& op);

Status minimum(OpContext& op);
Status maximum(OpContext& op);
Status pow_tensor(OpContext& op);
Status div_mode(OpContext& op);
Status bitwise_and(OpContext& op);
Status bitwise_or(OpContext& op);
Status bitwise_xor(OpContext& op);

Status eq(OpContext& op);
Status ne(OpContext& op);
Status lt(OpContext& op);
Status le(OpContext& op);
Status gt(OpContext& op);
Status ge(OpContext& op);
Status eq_scalar(OpContext& op);
Status ne_scalar(OpContext& op);
Status lt_scalar(OpContext& op);
Status le_scalar(OpContext& op);
Status gt_scalar(OpContext& op);
Status ge_scalar(OpContext& op);
Status logical_and(OpContext& op);
Status logical_or(OpContext& op);
Status logical_xor(OpContext& op);

Status where(OpContext& op);

Status full(OpContext& op);
Status full_like(OpContext& op);
Status scalar_tensor(OpContext& op);
Status zeros(OpContext& op);
Status zeros_like(OpContext& op);
Status ones(OpContext& op);
Status ones_like(OpContext& op);
Status arange(OpContext& op);
Status apply_rotary_emb(OpContext& op);
Status apply_rotary_emb_hf(OpContext& op);
Status apply_rotary_emb_interleaved(OpContext& op);
Status rope_update_cache(OpContext& op);
Status update_cache(OpContext& op);
Status sdpa_with_kv_cache(OpContext& op);
Status custom_sdpa(OpContext& op);
Status sdpa(OpContext& op);

/// Whether `count` positions from `start` on lie in `cache` [batch, position, head, element].
Status check_positions(const OpContext& op, std::int64_t count, const Tensor& cache, std::int64_t start);
/// Whether `value` [batch, position, head, element] may be written to `cache` at position `start`.
Status check_cache_write(const OpContext& op, const Tensor& value, const Tensor& cache, std::int64_t start);

/// Converts or copies `in` to `out`, which has the same shape; nothing to do where both are one storage.
Status convert(OpContext& op, const Tensor& in, const Out& out);

}  // namespace nibble::ops
