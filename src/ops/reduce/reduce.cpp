// Sums, means, variances, extremes and where they lie, over any dimensions. No barrier, so it suits CPU adapters, and
// enough threads for a GPU: see fold.hpp.
#include <bit>
#include <limits>

#include "ops/fold.hpp"

namespace nibble::ops {
namespace {

constexpr std::string_view kFloats = "alias T = f32;";
constexpr std::string_view kInts = "alias T = i32;";

constexpr std::string_view kSum =
    "alias S = T;\n"
    "fn start() -> S { return T(0); }\n"
    "fn lift(x: T, i: u32) -> S { return x; }\n"
    "fn lift4(v: vec4<T>, i: u32, step: u32) -> S { return v.x + v.y + v.z + v.w; }\n"
    "fn merge(a: S, b: S) -> S { return a + b; }\n";

// An extreme and where it lies; of equal ones the first. The value lies in the state by its bits.
constexpr std::string_view kExtreme =
    "alias S = vec2<i32>;\n"
    "fn start() -> S { return S(bitcast<i32>(params.identity), 0x7fffffff); }\n"
    "fn lift(x: T, i: u32) -> S { return S(bitcast<i32>(x), i32(i)); }\n"
    "fn lift4(v: vec4<T>, i: u32, step: u32) -> S {\n"
    "  return merge(merge(lift(v.x, i), lift(v.y, i + step)), merge(lift(v.z, i + 2u * step), lift(v.w, i + 3u * "
    "step)));\n"
    "}\n"
    "fn merge(a: S, b: S) -> S {\n"
    "  let x = bitcast<T>(a.x);\n"
    "  let y = bitcast<T>(b.x);\n"
    "  let takes_b = beats(y, x) || (!beats(x, y) && b.y < a.y);\n"
    "  return select(a, b, takes_b);\n"
    "}\n";

struct Order {
  std::string_view floats;  ///< T and beats(): NaN beats every number, as in torch
  std::string_view ints;
  float first_float;
  std::int32_t first_int;
};

// A NaN is known by its bits: compilers may take comparisons to be between numbers.
#define IS_NAN "fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }\n"
constexpr Order kMax{"alias T = f32;\n" IS_NAN
                     "fn beats(a: f32, b: f32) -> bool { return !is_nan(b) && (is_nan(a) || a > b); }",
                     "alias T = i32;\nfn beats(a: i32, b: i32) -> bool { return a > b; }",
                     -std::numeric_limits<float>::infinity(), std::numeric_limits<std::int32_t>::min()};
constexpr Order kMin{"alias T = f32;\n" IS_NAN
                     "fn beats(a: f32, b: f32) -> bool { return !is_nan(b) && (is_nan(a) || a < b); }",
                     "alias T = i32;\nfn beats(a: i32, b: i32) -> bool { return a < b; }",
                     std::numeric_limits<float>::infinity(), std::numeric_limits<std::int32_t>::max()};
#undef IS_NAN

/// The dimensions that a list names: no list, or an empty one, means all of them.
Result<DimSet> dims_of(OpContext& op, const Tensor& self, const std::optional<Ints>& dims) {
  DimSet set{};
  const bool all = !dims || dims->size() == 0;
  set.fill(all);
  for (std::size_t i = 0; !all && i < dims->size(); ++i) {
    TRY_ASSIGN(const auto d, op.dim((*dims)[i], self.rank(), "dim"));
    set[d] = true;
  }
  return set;
}

Status set_reduced_shape(OpContext& op, const Tensor& self, const DimSet& is_folded, bool keepdim, Out& out) {
  Shape shape;
  for (std::size_t i = 0; i < self.rank(); ++i) {
    if (!is_folded[i]) {
      shape.push_back(self.shape[i]);
    } else if (keepdim) {
      shape.push_back(1);
    }
  }
  return op.set_shape(out, shape);
}

Status add_up(OpContext& op, const Tensor& self, const std::optional<Ints>& dims, bool keepdim, Out& out,
              bool is_mean) {
  const bool on_ints = out.dtype == DType::i32;
  if ((!is_float(out.dtype) && !on_ints) || (on_ints && (is_mean || is_float(self.dtype)))) {
    return op.fail("cannot reduce {} to {}", self.dtype, out.dtype);
  }
  TRY_ASSIGN(const auto is_folded, dims_of(op, self, dims));
  TRY(set_reduced_shape(op, self, is_folded, keepdim, out));
  auto params = fold_params(op, self, is_folded);
  params.scalar = is_mean ? static_cast<float>(params.width) : 1.0F;
  const Fold sum{on_ints ? kInts : kFloats, kSum, 1, on_ints ? Elem::i32 : Elem::f32};
  TRY(fold(op, self, params, is_folded, sum));
  return finish_lines(op, params, sum, out, "alias R = T;\nfn finish(s: S) -> R { return s / T(params.scalar); }");
}

Status extreme(OpContext& op, const Tensor& self, const DimSet& is_folded, bool keepdim, Out& out, const Order& order,
               std::string_view finish) {
  TRY(set_reduced_shape(op, self, is_folded, keepdim, out));
  auto params = fold_params(op, self, is_folded);
  if (params.width == 0 && params.lines > 0)
    return op.fail("self has shape {}: no elements to choose from", self.shape);
  if (params.width > 0x7fffffff) return op.fail("self has {} elements to choose from, too many", params.width);
  const bool on_floats = is_float(self.dtype);
  params.identity =
      on_floats ? std::bit_cast<std::uint32_t>(order.first_float) : static_cast<std::uint32_t>(order.first_int);
  const Fold choice{on_floats ? order.floats : order.ints, kExtreme, 2, Elem::i32};
  TRY(fold(op, self, params, is_folded, choice));
  return finish_lines(op, params, choice, out, finish);
}

Status extreme_value(OpContext& op, const Order& order) {
  TRY_BIND((self, dims, keepdim, out),
           op.args<Tensor, std::optional<Ints>, bool, Out>({"self", "dim", "keepdim", "out"}));
  if (is_float(self.dtype) != is_float(out.dtype)) {
    return op.fail("self is {}, but the output is {}", self.dtype, out.dtype);
  }
  TRY_ASSIGN(const auto is_folded, dims_of(op, self, dims));
  return extreme(op, self, is_folded, keepdim, out, order,
                 "alias R = T;\nfn finish(s: S) -> R { return bitcast<T>(s.x); }");
}

Status extreme_place(OpContext& op, const Order& order) {
  TRY_BIND((self, dim, keepdim, out),
           op.args<Tensor, std::optional<std::int64_t>, bool, Out>({"self", "dim", "keepdim", "out"}));
  if (out.dtype != DType::i32) return op.fail("out must be int32, but it is {}", out.dtype);
  DimSet is_folded{};
  is_folded.fill(!dim);
  if (dim) {
    TRY_ASSIGN(const auto d, op.dim(*dim, self.rank(), "dim"));
    is_folded[d] = true;
  }
  return extreme(op, self, is_folded, keepdim, out, order, "alias R = i32;\nfn finish(s: S) -> R { return s.y; }");
}

Status spread(OpContext& op, const Tensor& self, const std::optional<Ints>& dims, double correction, bool keepdim,
              Out& out) {
  if (!is_float(self.dtype) || !is_float(out.dtype)) return op.fail("cannot reduce {} to {}", self.dtype, out.dtype);
  TRY_ASSIGN(const auto is_folded, dims_of(op, self, dims));
  TRY(set_reduced_shape(op, self, is_folded, keepdim, out));
  auto params = fold_params(op, self, is_folded);
  params.scalar = static_cast<float>(correction);
  TRY(fold(op, self, params, is_folded, kMoments));
  return finish_lines(op, params, kMoments, out,
                      "alias R = f32;\nfn finish(s: S) -> R { return s.z / max(s.x - params.scalar, 0.0); }");
}

}  // namespace

Status mean(OpContext& op) {
  TRY_BIND((self, dims, keepdim, dtype, out),
           op.args<Tensor, std::optional<Ints>, bool, Ignored, Out>({"self", "dim", "keepdim", "dtype", "out"}));
  return add_up(op, self, dims, keepdim, out, true);
}

Status sum(OpContext& op) {
  TRY_BIND((self, dims, keepdim, dtype, out),
           op.args<Tensor, std::optional<Ints>, bool, Ignored, Out>({"self", "dim", "keepdim", "dtype", "out"}));
  return add_up(op, self, dims, keepdim, out, false);
}

Status var(OpContext& op) {
  TRY_BIND((self, dims, unbiased, keepdim, out),
           op.args<Tensor, std::optional<Ints>, bool, bool, Out>({"self", "dim", "unbiased", "keepdim", "out"}));
  return spread(op, self, dims, unbiased ? 1 : 0, keepdim, out);
}

Status var_correction(OpContext& op) {
  TRY_BIND((self, dims, correction, keepdim, out),
           op.args<Tensor, std::optional<Ints>, std::optional<Number>, bool, Out>(
               {"self", "dim", "correction", "keepdim", "out"}));
  return spread(op, self, dims, correction ? correction->value : 1, keepdim, out);
}

Status amax(OpContext& op) { return extreme_value(op, kMax); }
Status amin(OpContext& op) { return extreme_value(op, kMin); }
Status argmax(OpContext& op) { return extreme_place(op, kMax); }
Status argmin(OpContext& op) { return extreme_place(op, kMin); }

}  // namespace nibble::ops
