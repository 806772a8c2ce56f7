// Channels (dimension 1) brought to unit size: by statistics that the program has, or by those of groups of channels.
// All computed in f32.
#include "ops/families.hpp"
#include "ops/reduce/fold.hpp"

namespace nibble::ops {
namespace {

using Channels = std::array<const Tensor*, 4>;  // weight, bias and two statistics; null where they are not given

/// `kernel` knows where the statistics come from. Dimensions before `axis` are batches of channels.
Status normalize(Lowering& op, const Tensor& input, const Channels& given, const Number& eps, const Out& out,
                 Kernel kernel, std::int64_t group, std::uint32_t parts, std::size_t axis = 1) {
  const auto channels = input.shape[axis];
  kernel.params = wgsl::ChannelNormParams{.quads = quads_of(input.shape),
                                          .planes = narrow(wrapping_product(input.shape.dims().first(axis + 1))),
                                          .inner = narrow(wrapping_product(input.shape.dims().subspan(axis + 1))),
                                          .channels = narrow(channels),
                                          .group = narrow(group),
                                          .parts = parts,
                                          .epsilon = eps.to_float()};
  kernel.threads = quads_of(input.shape);
  kernel.bind.push_back(op.read("source", input));
  kernel.bind.push_back(op.write("result", out));
  for (const auto* t : given) {
    if (t == nullptr) continue;
    if (!(t->shape == Shape{channels})) {
      return op.fail("{} has shape {}, but input has {} channels", t->arg, t->shape, channels);
    }
    kernel.bind.push_back(op.read(t->arg, *t));
  }
  kernel.slots.push_back({"weight", given[0] != nullptr ? wgsl::norm_weight : wgsl::norm_no_weight});
  kernel.slots.push_back({"bias", given[1] != nullptr ? wgsl::norm_bias : wgsl::norm_no_bias});
  return op.dispatch(kernel);
}

const Tensor* given(const std::optional<Float<Tensor>>& tensor) { return tensor ? &*tensor : nullptr; }

/// The other two outputs are empty.
Status batch_norm(Lowering& op, const Float<Tensor>& input, const std::optional<Float<Tensor>>& weight,
                  const std::optional<Float<Tensor>>& bias, const Float<Tensor>& mean, const Float<Tensor>& variance,
                  Ignored, const Number& eps, const Float<Outs>& outs) {
  if (input.rank() < 2) return op.fail("input has shape {}, but dimension 1 is normalized", input.shape);
  if (outs.size() == 0 || !outs.has(0)) return op.fail("out must hold a tensor");
  Out out = outs[0];
  TRY(op.set_shape(out, input.shape));
  return normalize(op, input, {given(weight), given(bias), &mean, &variance}, eps, out,
                   {.shader = wgsl::channel_norm, .slots = {{"statistics", wgsl::channel_statistics}}}, 1, 1);
}

/// What a batch norm makes of the bias of the convolution before it, or of its filter, which has no mean.
Status fold_norm(Lowering& op, const Float<Tensor>& source, const std::optional<Float<Tensor>>& weight,
                 const std::optional<Float<Tensor>>& bias, const std::optional<Float<Tensor>>& mean,
                 const Float<Tensor>& variance, const Number& eps, bool transposed, Float<Out>& out) {
  if (source.rank() == 0) return op.fail("source is a scalar, but it must have channels");
  TRY(op.set_shape(out, source.shape));
  const std::size_t axis = transposed && source.rank() > 1 ? 1 : 0;
  const Shader& statistics = mean ? wgsl::channel_statistics : wgsl::channel_variances;
  return normalize(op, source, {given(weight), given(bias), given(mean), &variance}, eps, out,
                   {.shader = wgsl::channel_norm, .slots = {{"statistics", statistics}}}, 1, 1, axis);
}

/// Sizes that follow from the input are not read.
Status group_norm(Lowering& op, const Float<Tensor>& input, const std::optional<Float<Tensor>>& weight,
                  const std::optional<Float<Tensor>>& bias, Ignored, Ignored, Ignored, std::int64_t groups,
                  const Number& eps, const Float<Outs>& outs) {
  if (input.rank() < 2) return op.fail("input has shape {}, but dimension 1 is normalized", input.shape);
  const auto group = groups < 1 ? 0 : input.shape[1] / groups;
  if (groups < 1 || group * groups != input.shape[1]) {
    return op.fail("group is {}, which does not divide {} channels", groups, input.shape[1]);
  }
  if (outs.size() != 3) return op.fail("out must hold three tensors");
  const Shape stat{input.shape[0], groups};
  TRY(op.set_shapes(outs, {input.shape, stat, stat}));
  const auto grouped = [&](const Shape& shape) {
    return Shape{shape[0], groups, wrapping_product(shape.dims().subspan(1)) / groups};
  };
  auto lines = lines_of(op, input, grouped(input.shape), grouped(op.bound(input)), {false, false, true});
  lines.params.scalar = eps.to_float();
  TRY(fold(op, input, lines, kMoments));
  TRY(merge_parts(op, lines.params, kMoments));
  if (outs.has(0)) {
    Kernel kernel{.shader = wgsl::channel_norm,
                  .slots = {{"statistics", wgsl::group_statistics}, {"fold", *kMoments.shader}}};
    add_states(kernel, kMoments);
    TRY(normalize(op, input, {given(weight), given(bias)}, eps, outs[0], kernel, group, lines.params.parts));
  }
  if (outs.has(1)) TRY(finish_lines(op, lines.params, kMoments, outs[1], wgsl::finish_mean));
  if (outs.has(2)) TRY(finish_lines(op, lines.params, kMoments, outs[2], wgsl::finish_rstd));
  return {};
}

constexpr Op kChannelNormOps[] = {
    op<batch_norm>("aten._native_batch_norm_legit_no_training.default",
                   "input, weight, bias, running_mean, running_var, momentum, eps -> out",
                   "any rank from 2; the first output only, the others are empty"),
    op<fold_norm>("nibble.fold_norm", "source, weight, bias, running_mean, running_var, eps, transposed -> out",
                  "made by a pass: a norm becomes part of the convolution before it"),
    op<group_norm>("aten.native_group_norm.default", "input, weight, bias, N, C, HxW, group, eps -> out",
                   "any rank from 2"),
};

}  // namespace

const Family kChannelNorm{"channel_norm", kChannelNormOps};

}  // namespace nibble::ops
