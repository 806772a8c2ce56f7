// Rows brought to unit size: rms_norm, layer_norm, and a sum with the rms_norm of it. All computed in f32.
#include "ops/families.hpp"
#include "ops/reduce/rows.hpp"

namespace nibble::ops {
namespace {

DimSet from_dim(std::size_t first) {
  DimSet set{};
  for (std::size_t i = first; i < set.size(); ++i) set[i] = true;
  return set;
}

const Shader& weight_of(const std::optional<Tensor>& weight) {
  return weight ? wgsl::norm_weight : wgsl::norm_no_weight;
}

Status rms(Lowering& op, const Tensor& x, const std::optional<Tensor>& weight, const Number& eps, Out& out,
           const Terms* terms = nullptr) {
  if (x.rank() == 0) return op.fail("{} has no dimensions, but its last one is normalized", x.arg);
  const auto last = x.rank() - 1;
  if (weight) {
    const auto width = x.shape[last];
    if (weight->rank() == 0 || weight->shape[weight->rank() - 1] != width || weight->numel() != width) {
      return op.fail("weight has shape {}, but rows of {} elements need [{}]", weight->shape, width, width);
    }
  }
  TRY(op.set_shape(out, x.shape));
  auto lines = lines_of(op, x, from_dim(last));
  lines.params.scalar = eps.to_float();
  return rows(op,
              {.fold = {.shader = &wgsl::fold_squares},
               .slots = {{"apply", wgsl::apply_rms_norm}, {"weight", weight_of(weight)}},
               .weight = weight,
               .terms = terms},
              x, lines, out);
}

Status rms_norm(Lowering& op, const Float<Tensor>& x, const std::optional<Float<Tensor>>& weight, const Number& eps,
                Float<Out>& out) {
  return rms(op, x, weight, eps, out);
}

/// What is normalized is the sum as it is stored.
Status add_rms_norm(Lowering& op, const Float<Tensor>& a, const Float<Tensor>& b, const Float<Tensor>& weight,
                    const Number& eps, const Float<Outs>& outs) {
  if (outs.size() != 2 || !outs.has(0) || !outs.has(1)) return op.fail("out must hold two tensors");
  Out sum = outs[0];
  Out normed = outs[1];
  if (!(a.shape == b.shape)) return op.fail("a has shape {}, but b has {}", a.shape, b.shape);
  TRY(op.set_shape(sum, a.shape));
  const Terms terms{.b = b, .sum = sum};
  return rms(op, a, weight, eps, normed, &terms);
}

Status native_layer_norm(Lowering& op, const Float<Tensor>& input, const LiveInts& normalized,
                         const std::optional<Float<Tensor>>& weight, const std::optional<Float<Tensor>>& bias,
                         const Number& eps, const Float<Outs>& outs) {
  if (outs.size() != 3) return op.fail("out must hold three tensors");
  if (normalized.size() == 0 || normalized.size() > input.rank()) {
    return op.fail("normalized_shape has {} dimensions, but input has {}", normalized.size(), input.rank());
  }
  const std::size_t kept = input.rank() - normalized.size();
  Shape inner;
  Shape stat;
  for (std::size_t i = 0; i < input.rank(); ++i) {
    stat.push_back(i < kept ? input.shape[i] : 1);
    if (i < kept) continue;
    inner.push_back(normalized[i - kept]);
    if (normalized[i - kept] != input.shape[i]) {
      return op.fail("normalized_shape[{}] is {}, but input has shape {}", i - kept, normalized[i - kept], input.shape);
    }
  }
  for (const auto* t : {&weight, &bias}) {
    if (!*t || (*t)->shape == inner) continue;
    return op.fail("{} has shape {}, but {} is normalized", (*t)->arg, (*t)->shape, inner);
  }
  TRY(op.set_shapes(outs, {input.shape, stat, stat}));
  auto lines = lines_of(op, input, from_dim(kept));
  lines.params.scalar = eps.to_float();
  const RowsOp norm{.fold = kMoments,
                    .slots = {{"apply", wgsl::apply_layer_norm},
                              {"weight", weight_of(weight)},
                              {"bias", bias ? wgsl::norm_bias : wgsl::norm_no_bias}},
                    .weight = weight,
                    .bias = bias,
                    .keeps_states = outs.has(1) || outs.has(2)};
  // Where nobody reads the norm itself, only the lines are folded.
  TRY(outs.has(0) ? rows(op, norm, input, lines, outs[0]) : fold(op, input, lines, kMoments));
  if (outs.has(1)) TRY(finish_lines(op, lines.params, kMoments, outs[1], wgsl::finish_mean));
  if (outs.has(2)) TRY(finish_lines(op, lines.params, kMoments, outs[2], wgsl::finish_rstd));
  return {};
}

constexpr Op kNormOps[] = {
    open<rms_norm>("et_vk.rms_norm.default", "x, weight, eps -> out", "any width, any number of rows"),
    op<add_rms_norm>("nibble.add_rms_norm", "a, b, weight, eps -> out", "a sum and its rms_norm; made by a rewrite"),
    op<native_layer_norm>("aten.native_layer_norm.default", "input, normalized_shape, weight, bias, eps -> out",
                          "any trailing dims"),
};

}  // namespace

const Family kNorm{"norm", kNormOps, {&kRows}};

}  // namespace nibble::ops
