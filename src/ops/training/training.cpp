// What on-device training needs beside the ops of inference: a loss with its gradient, gradients of linears, a step of
// the optimizer, and weights packed anew.
#include "ops/families.hpp"
#include "ops/move/move.hpp"
#include "ops/product/product.hpp"
#include "ops/reduce/fold.hpp"

namespace nibble::ops {
namespace {

Status fused_ce(Lowering& op, const Float<Tensor>& logits, const Tensor& labels, const Number& n_valid,
                const Float<Outs>& outs) {
  if (logits.rank() != 2) return op.fail("logits must have 2 dimensions, but its shape is {}", logits.shape);
  if (labels.dtype != DType::i32 || labels.numel() != logits.shape[0]) {
    return op.fail("labels must be int32 with {} elements, but it is {} {}", logits.shape[0], labels.dtype,
                   labels.shape);
  }
  if (outs.size() != 2) return op.fail("out must hold two tensors, but it holds {}", outs.size());
  auto lines = lines_of(op, logits, {false, true});
  Fold exponentials{.shader = &wgsl::fold_exponentials, .lanes = 2};
  TRY(fold(op, logits, lines, exponentials));
  TRY(merge_parts(op, lines.params, exponentials));
  const wgsl::CrossEntropyParams params{.rows = lines.params.lines,
                                        .width = lines.params.width,
                                        .parts = lines.params.parts,
                                        .node = op.node(),
                                        .site = op.add_fault_site(labels, logits.shape[1]),
                                        .n_valid = n_valid.to_float()};
  TRY(op.set_shapes(outs, {Shape{}, logits.shape}));
  for (const std::size_t i : {0U, 1U}) {
    if (!outs.has(i)) continue;
    TRY(op.dispatch({.shader = i == 0 ? wgsl::cross_entropy_loss : wgsl::cross_entropy_gradient,
                     .bind = {Scratch::read("states", Elem::f32).lanes(2), op.read("source", logits),
                              op.read("labels", labels), op.write("result", outs[i]), Lowering::fault()},
                     .params = params,
                     .threads = i == 0 ? 64U : quads_of(logits.shape),
                     .workgroup = 64,
                     .work = params.rows,
                     .whole_groups = i == 0}));
  }
  return {};
}

/// The outputs are the states themselves, or copies of them.
Status adamw_step(Lowering& op, const Float<State>& param, const Float<State>& m, const Float<State>& v,
                  const Float<Tensor>& grad, const Number& lr, const Number& beta1, const Number& beta2,
                  const Number& eps, const Number& decay, const Number& correction1, const Number& correction2,
                  const Outs& outs) {
  const std::array<const State*, 3> states{&param, &m, &v};
  for (const Tensor* t : std::initializer_list<const Tensor*>{&m, &v, &grad}) {
    if (t->shape == param.shape) continue;
    return op.fail("{} has shape {}, but param has shape {}", t->arg, t->shape, param.shape);
  }
  const wgsl::AdamwParams params{.quads = quads_of(param.shape),
                                 .lr = lr.to_float(),
                                 .decay = static_cast<float>(1 - lr.value * decay.value),
                                 .beta1 = beta1.to_float(),
                                 .beta2 = beta2.to_float(),
                                 .rest1 = static_cast<float>(1 - beta1.value),
                                 .rest2 = static_cast<float>(1 - beta2.value),
                                 .eps = eps.to_float(),
                                 .correction1 = correction1.to_float(),
                                 .correction2 = correction2.to_float()};
  const Bindings bind{op.update("param", param), op.update("mean", m), op.update("variance", v), op.read("grad", grad)};
  TRY(op.dispatch_quads(wgsl::adamw, bind, params));
  TRY(op.set_shapes(outs, {param.shape, m.shape, v.shape}));
  for (std::size_t i = 0; i < std::min(outs.size(), states.size()); ++i) {
    if (outs.has(i)) TRY(convert(op, *states[i], outs[i]));
  }
  return {};
}

/// What a tensor has of rows, seen as a matrix.
std::int64_t rows_of(const Tensor& t) {
  return wrapping_product(t.shape.dims().first(std::max<std::size_t>(t.rank(), 1) - 1));
}

/// The transpose of d_out times x.
Status linear_dw(Lowering& op, const Float<Tensor>& d_out, const Float<Tensor>& x, Float<Out>& out) {
  const auto depth = rows_of(x);
  if (d_out.rank() == 0 || x.rank() == 0 || rows_of(d_out) != depth) {
    return op.fail("d_out and x have shapes {} and {}, but need as many rows", d_out.shape, x.shape);
  }
  const auto rows = last_dim(d_out);
  const auto columns = last_dim(x);
  TRY(op.set_shape(out, {rows, columns}));
  TRY_ASSIGN(const auto turned, op.scratch(Size::bytes(op.bound(d_out), d_out.dtype)));
  Walk walk;
  walk.add({rows, 1});
  walk.add({depth, rows});
  walk.merge();
  const auto walked = walk_params(op, walk, false);
  const auto elem = elem_of(d_out.dtype);
  TRY(op.dispatch({.shader = wgsl::move,
                   .bind = {moved(op.read("source", d_out)), moved(turned.write("result", elem))},
                   .params = walked,
                   .threads = walked.threads,
                   .slots = {{"type", moved_type(d_out.dtype)}}}));
  const auto most = op.bound(d_out);
  Product p{.rows = op.extent(narrow(rows), narrow(most[most.rank() - 1]), {&d_out}),
            .varies = op.varies({&x, &d_out}),
            .max_depth = static_cast<std::uint64_t>(op.bound(x).numel()),
            .weights = Weights::columns,
            .x = turned.read("x", elem),
            .weight = op.read("weight", x)};
  p.params.rows = narrow(rows);
  p.params.depth = narrow(depth);
  p.params.weight_pitch = narrow(columns);
  p.params.sections[0] = {.width = narrow(columns), .result_width = narrow(columns)};
  p.results[0] = op.write("result", out);
  return multiply(op, p);
}

/// d_out times the weights of linear_q4gsw.
Status linear_backward(Lowering& op, const Float<Tensor>& d_out, const Tensor& weights, const Float<Tensor>& scales,
                       std::int64_t group_size, Float<Out>& out) {
  if (weights.dtype != DType::u8 || weights.rank() != 2) {
    return op.fail("weights must be uint8 with 2 dimensions, but it is {} {}", weights.dtype, weights.shape);
  }
  const auto columns = 2 * weights.shape[1];
  if (group_size <= 0 || columns % group_size != 0) {
    return op.fail("group_size is {}, which does not divide the width {}", group_size, columns);
  }
  if (scales.rank() != 2 || scales.shape[0] < columns / group_size || scales.shape[1] < weights.shape[0]) {
    return op.fail("weight_scales has shape {}, but {} groups of {} rows need [{}, {}]", scales.shape,
                   columns / group_size, weights.shape[0], columns / group_size, weights.shape[0]);
  }
  TRY_ASSIGN(auto p, product_of(op, d_out, weights, weights.shape[0]));
  TRY(set_width(op, d_out, columns, out));
  p.weights = Weights::q4_columns;
  p.weight = op.read("weight", weights);
  p.scales = op.read("scales", scales);
  p.params.weight_pitch = narrow(weights.shape[1]);
  p.params.group_size = narrow(group_size);
  p.params.sections[0] = {
      .width = narrow(columns), .scales_pitch = narrow(scales.shape[1]), .result_width = narrow(columns)};
  p.results[0] = op.write("result", out);
  return multiply(op, p);
}

Status requantize(Lowering& op, const Float<Tensor>& latent, const Float<Tensor>& scales, std::int64_t group_size,
                  Out& out) {
  if (latent.rank() != 2 || out.dtype != DType::u8) {
    return op.fail("latent must have 2 dimensions and the output be uint8, but they are {} and {}", latent.shape,
                   out.dtype);
  }
  const auto width = latent.shape[1];
  if (group_size <= 0) return op.fail("group_size is {}, but it must be at least 1", group_size);
  const auto groups = (width + group_size - 1) / group_size;
  if (scales.rank() != 2 || scales.shape[0] < groups || scales.shape[1] < latent.shape[0]) {
    return op.fail("scales has shape {}, but {} groups of {} rows need [{}, {}]", scales.shape, groups, latent.shape[0],
                   groups, latent.shape[0]);
  }
  TRY(op.set_shape(out, {latent.shape[0], (width + 1) / 2}));
  return op.dispatch({.shader = wgsl::requantize_q4,
                      .bind = {op.read("source", latent), op.read("scales", scales), op.write("result", out)},
                      .params = wgsl::RequantizeQ4Params{narrow(out.numel()), narrow(width), narrow(group_size),
                                                         narrow(scales.shape[1])},
                      .threads = quads_of(out.shape)});
}

constexpr std::string_view kAdamw =
    "param, m, v, grad, lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2 -> out";

constexpr Op kTrainingOps[] = {
    op<fused_ce>("et_vk.fused_ce.default", "logits, labels, n_valid -> out", "a negative label is ignored"),
    op<adamw_step>("et_vk.adamw_step.default", kAdamw, "in place; the outputs may be the states"),
    op<adamw_step>("adamw_step.default", kAdamw, "the same"),
    op<linear_dw>("et_vk.linear_dW.default", "d_out, x -> out", "any rank"),
    op<linear_backward>("et_vk.linear_q4gsw_backward.default", "d_out, weights, weight_scales, group_size -> out",
                        "any rank and group size"),
    op<requantize>("et_vk.q4gsw_requant.default", "latent, scales, group_size -> out", "any width and group size"),
};

}  // namespace

const Family kTraining{"training", kTrainingOps};

}  // namespace nibble::ops
