// Softmax and its logarithm over any dimension, stable for any input: the largest element of a line is subtracted.
#include "ops/rows.hpp"

namespace nibble::ops {
namespace {

// The largest element, and the sum of exp(element - largest). It begins with the lowest number instead of -infinity,
// so that a line, or a part of one, that is all -infinity has the sum 0: the quotient of such a line is NaN, as in
// torch, and the part adds nothing to its line. A NaN or +infinity makes the sum NaN by hand: exp() and log() of some
// devices give numbers for NaN and for 0.
constexpr Fold kExpSum{
    .type = "alias T = f32;",
    .wgsl =
        "alias S = vec2<f32>;\n"
        "const LOWEST = -0x1.fffffep+127f;\n"
        "fn start() -> S { return S(LOWEST, 0.0); }\n"
        "fn exponentials(v: vec4<f32>, largest: f32) -> vec4<f32> {\n"
        "  let bits = bitcast<vec4<u32>>(v);\n"
        "  let size = bits & vec4<u32>(0x7fffffffu);\n"
        "  let is_lost = (size >= vec4<u32>(0x7f800000u)) & (bits != vec4<u32>(0xff800000u));\n"
        "  return select(exp(v - largest), bitcast<vec4<f32>>(bits | vec4<u32>(0x7fc00000u)), is_lost);\n"
        "}\n"
        "fn lift(x: f32, i: u32) -> S {\n"
        "  let largest = max(x, LOWEST);\n"
        "  return S(largest, exponentials(vec4<f32>(x), largest).x);\n"
        "}\n"
        "fn lift4(v: vec4<f32>, i: u32, step: u32) -> S {\n"
        "  let largest = max(max(max(v.x, v.y), max(v.z, v.w)), LOWEST);\n"
        "  let e = exponentials(v, largest);\n"
        "  return S(largest, e.x + e.y + e.z + e.w);\n"
        "}\n"
        "fn merge(a: S, b: S) -> S {\n"
        "  let e = exp(-abs(a.x - b.x));\n"
        "  return S(max(a.x, b.x), select(a.y * e + b.y, a.y + b.y * e, a.x >= b.x));\n"
        "}\n",
    .lanes = 2,
};

constexpr std::string_view kQuotient =
    "fn done(s: S) -> vec2<f32> { return vec2<f32>(s.x, 1.0 / s.y); }\n"
    "fn apply(x: f32, d: vec2<f32>, i: u32) -> f32 { return exp(x - d.x) * d.y; }\n"
    "fn apply4(v: vec4<f32>, d: vec2<f32>, quad: u32) -> vec4<f32> { return exp(v - d.x) * d.y; }\n";
constexpr std::string_view kLogarithm =
    "fn done(s: S) -> vec2<f32> {\n"
    "  let bits = bitcast<u32>(s.y);\n"
    "  let is_lost = bits == 0u || (bits & 0x7fffffffu) > 0x7f800000u;\n"
    "  return vec2<f32>(s.x, select(log(s.y), bitcast<f32>(bits | 0x7fc00000u), is_lost));\n"
    "}\n"
    "fn apply(x: f32, d: vec2<f32>, i: u32) -> f32 { return x - d.x - d.y; }\n"
    "fn apply4(v: vec4<f32>, d: vec2<f32>, quad: u32) -> vec4<f32> { return v - d.x - d.y; }\n";

Status softmax_with(OpContext& op, std::string_view apply) {
  TRY_BIND((self, dim, half_to_float, out),
           op.args<Tensor, std::int64_t, Ignored, Out>({"self", "dim", "half_to_float", "out"}));
  TRY(check_float(op, self));
  TRY(check_float(op, out));
  TRY_ASSIGN(const auto d, op.dim(dim, self.rank(), "dim"));
  TRY(op.set_shape(out, self.shape));
  DimSet is_folded{};
  is_folded[d] = true;
  auto params = fold_params(op, self, is_folded);
  return rows(op, self, {}, is_folded, params, out, {kExpSum, apply});
}

}  // namespace

Status softmax(OpContext& op) { return softmax_with(op, kQuotient); }
Status log_softmax(OpContext& op) { return softmax_with(op, kLogarithm); }

}  // namespace nibble::ops
