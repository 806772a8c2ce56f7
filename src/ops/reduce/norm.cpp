// Rows brought to unit size: rms_norm, layer_norm, and a sum with the rms_norm of it. All computed in f32.
#include "ops/rows.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

constexpr Fold kSquares{
    .type = "alias T = f32;",
    .wgsl =
        "alias S = f32;\n"
        "fn start() -> S { return 0.0; }\n"
        "fn lift(x: f32, i: u32) -> S { return x * x; }\n"
        "fn lift4(v: vec4<f32>, i: u32, step: u32) -> S { return dot(v, v); }\n"
        "fn merge(a: S, b: S) -> S { return a + b; }\n",
};

constexpr std::string_view kRms =
    "fn done(s: S) -> vec2<f32> {\n"
    "  return vec2<f32>(1.0 / sqrt(s / f32(params.width) + params.scalar), 0.0);\n"
    "}\n"
    "fn apply(x: f32, d: vec2<f32>, i: u32) -> f32 { return x * d.x * weight_at(i); }\n"
    "fn apply4(v: vec4<f32>, d: vec2<f32>, quad: u32) -> vec4<f32> { return v * d.x * weight4_at(quad); }\n";

constexpr std::string_view kCentre =
    "fn done(s: S) -> vec2<f32> { return vec2<f32>(s.y, 1.0 / sqrt(s.z / s.x + params.scalar)); }\n"
    "fn apply(x: f32, d: vec2<f32>, i: u32) -> f32 { return (x - d.x) * d.y * weight_at(i) + bias_at(i); }\n"
    "fn apply4(v: vec4<f32>, d: vec2<f32>, quad: u32) -> vec4<f32> {\n"
    "  return (v - d.x) * d.y * weight4_at(quad) + bias4_at(quad);\n"
    "}\n";

#define WEIGHT                                               \
  "fn weight_at(i: u32) -> f32 { return load_weight(i); }\n" \
  "fn weight4_at(quad: u32) -> vec4<f32> { return load4_weight(quad); }\n"
#define NO_WEIGHT                                 \
  "fn weight_at(i: u32) -> f32 { return 1.0; }\n" \
  "fn weight4_at(quad: u32) -> vec4<f32> { return vec4<f32>(1.0); }\n"
#define BIAS                                             \
  "fn bias_at(i: u32) -> f32 { return load_bias(i); }\n" \
  "fn bias4_at(quad: u32) -> vec4<f32> { return load4_bias(quad); }\n"
#define NO_BIAS                                 \
  "fn bias_at(i: u32) -> f32 { return 0.0; }\n" \
  "fn bias4_at(quad: u32) -> vec4<f32> { return vec4<f32>(0.0); }\n"

std::string_view affine_lines(const Affine& affine) {
  if (affine.weight) return affine.bias ? WEIGHT BIAS : WEIGHT NO_BIAS;
  return affine.bias ? NO_WEIGHT BIAS : NO_WEIGHT NO_BIAS;
}

Status check_rms(const OpContext& op, const Tensor& x, const std::optional<Tensor>& weight, const Out& out) {
  TRY(check_float(op, x));
  TRY(check_float(op, out));
  if (x.rank() == 0) return op.fail("{} has no dimensions, but its last one is normalized", x.arg);
  if (!weight) return {};
  TRY(check_float(op, *weight));
  const auto width = x.shape[x.rank() - 1];
  if (weight->rank() == 0 || weight->shape[weight->rank() - 1] != width || weight->numel() != width) {
    return op.fail("weight has shape {}, but rows of {} elements need [{}]", weight->shape, width, width);
  }
  return {};
}

RowsOp rms(const std::optional<Tensor>& weight) { return {kSquares, kRms, weight ? WEIGHT : NO_WEIGHT}; }

DimSet from_dim(std::size_t first) {
  DimSet set{};
  for (std::size_t i = first; i < set.size(); ++i) set[i] = true;
  return set;
}

}  // namespace

Status rms_norm(OpContext& op) {
  TRY_BIND((x, weight, eps, out), op.args<Tensor, std::optional<Tensor>, Number, Out>({"x", "weight", "eps", "out"}));
  TRY(check_rms(op, x, weight, out));
  TRY(op.set_shape(out, x.shape));
  const auto last = from_dim(x.rank() - 1);
  auto params = fold_params(op, x, last);
  params.scalar = static_cast<float>(eps.value);
  return rows(op, x, {weight, {}}, last, params, out, rms(weight));
}

Status add_rms_norm(OpContext& op) {
  TRY_BIND((a, b, weight, eps, outs),
           op.args<Tensor, Tensor, Tensor, Number, Outs>({"a", "b", "weight", "eps", "out"}));
  if (outs.size() != 2 || !outs.has(0) || !outs.has(1)) return op.fail("out must hold two tensors");
  Out sum = outs[0];
  Out normed = outs[1];
  if (!(a.shape == b.shape)) return op.fail("a has shape {}, but b has {}", a.shape, b.shape);
  TRY(check_float(op, b));
  TRY(check_float(op, sum));
  TRY(check_rms(op, a, weight, normed));
  TRY(op.set_shape(sum, a.shape));
  TRY(op.set_shape(normed, a.shape));
  const auto last = from_dim(a.rank() - 1);
  auto params = fold_params(op, a, last);
  params.scalar = static_cast<float>(eps.value);
  op.need_dispatches(4);
  if (suits_groups(op, params)) {
    // What is normalized is the sum as it is stored.
    const Bindings bind{op.read("a", a), op.read("b", b), op.read("weight", weight), op.write("sum", sum),
                        op.write("result", normed)};
    return rows_in_groups(op, bind, a.shape[a.rank() - 1], params, rms(weight),
                          "fn again4(i: u32) -> vec4<f32> { return load4_sum(i); }\n"
                          "fn first4(i: u32) -> vec4<f32> { store4_sum(i, load4_a(i) + load4_b(i)); return "
                          "again4(i); }\n");
  }
  struct Params {
    std::uint32_t quads;
  };
  const auto quads = static_cast<std::uint32_t>(Size::of(a.shape).div_up(4).unchecked());
  TRY(op.dispatch({.shader = wgsl::add_quads,
                   .bind = {op.read("a", a), op.read("b", b), op.write("sum", sum)},
                   .params = params_of(Params{quads}),
                   .threads = quads}));
  return rows(op, sum, {weight, {}}, last, params, normed, rms(weight));
}

Status native_layer_norm(OpContext& op) {
  TRY_BIND((input, normalized, weight, bias, eps, outs),
           op.args<Tensor, Ints, std::optional<Tensor>, std::optional<Tensor>, Number, Outs>(
               {"input", "normalized_shape", "weight", "bias", "eps", "out"}));
  if (outs.size() != 3 || !outs.has(0)) return op.fail("out must hold three tensors");
  TRY(check_float(op, input));
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
    if (!*t) continue;
    TRY(check_float(op, **t));
    if (!((*t)->shape == inner)) return op.fail("{} has shape {}, but {} is normalized", (*t)->arg, (*t)->shape, inner);
  }
  Out out = outs[0];
  TRY(check_float(op, out));
  TRY(op.set_shape(out, input.shape));
  const bool wants_stats = outs.has(1) || outs.has(2);
  for (std::size_t i : {1, 2}) {
    if (!outs.has(i)) continue;
    Out s = outs[i];
    TRY(check_float(op, s));
    TRY(op.set_shape(s, stat));
  }
  const auto trailing = from_dim(kept);
  auto params = fold_params(op, input, trailing);
  params.scalar = static_cast<float>(eps.value);
  const Affine affine{weight, bias};
  TRY(rows(op, input, affine, trailing, params, out, {kMoments, kCentre, affine_lines(affine)}, wants_stats));
  if (outs.has(1)) {
    TRY(finish_lines(op, params, kMoments, outs[1], "alias R = f32;\nfn finish(s: S) -> R { return s.y; }"));
  }
  if (outs.has(2)) {
    TRY(finish_lines(op, params, kMoments, outs[2],
                     "alias R = f32;\nfn finish(s: S) -> R { return 1.0 / sqrt(s.z / s.x + params.scalar); }"));
  }
  return {};
}

}  // namespace nibble::ops
