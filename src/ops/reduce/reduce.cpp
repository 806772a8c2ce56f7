// Sums, means, variances, extremes and where they lie, over any dimensions. No barrier, so it suits CPU adapters, and
// enough threads for a GPU: see fold.hpp.
#include "ops/families.hpp"
#include "ops/reduce/fold.hpp"

namespace nibble::ops {
namespace {

struct Order {
  const Shader* floats;
  const Shader* ints;
};
constexpr Order kMax{&wgsl::max_of_floats, &wgsl::max_of_ints};
constexpr Order kMin{&wgsl::min_of_floats, &wgsl::min_of_ints};

/// The dimensions that an argument names: without one, all of them.
template <class Dims>
Result<DimSet> dims_of(const Lowering& op, const Tensor& self, const std::optional<Dims>& dims) {
  DimSet all;
  all.fill(true);
  return dims ? op.dims(*dims, self.rank(), "dim") : all;
}

/// The same where an empty list means all of them too.
Result<DimSet> some_dims_of(const Lowering& op, const Tensor& self, const std::optional<Ints>& dims) {
  return dims_of(op, self, dims && dims->size() == 0 ? std::nullopt : dims);
}

/// Says the shape of `out`, and gives the lines to fold.
Result<Lines> reduced(Lowering& op, const Tensor& self, const DimSet& is_folded, bool keepdim, Out& out) {
  Shape shape;
  for (std::size_t i = 0; i < self.rank(); ++i) {
    if (!is_folded[i] || keepdim) shape.push_back(is_folded[i] ? 1 : self.shape[i]);
  }
  TRY(op.set_shape(out, shape));
  return lines_of(op, self, is_folded);
}

Status reduce(Lowering& op, const Tensor& self, Lines& lines, const Out& out, const Fold& f, const Shader& finish) {
  TRY(fold(op, self, lines, f));
  return finish_lines(op, lines.params, f, out, finish);
}

template <bool is_mean>
Status sum(Lowering& op, const Tensor& self, const std::optional<Ints>& dims, bool keepdim, Ignored, Out& out) {
  const bool on_ints = out.dtype == DType::i32;
  if ((!is_float(out.dtype) && !on_ints) || (on_ints && (is_mean || is_float(self.dtype)))) {
    return op.fail("cannot reduce {} to {}", self.dtype, out.dtype);
  }
  TRY_ASSIGN(const auto is_folded, some_dims_of(op, self, dims));
  TRY_ASSIGN(auto lines, reduced(op, self, is_folded, keepdim, out));
  lines.params.scalar = is_mean ? static_cast<float>(lines.params.width) : 1.0F;
  const Fold f{.shader = &wgsl::fold_sum,
               .elements = on_ints ? &wgsl::ints : &wgsl::floats,
               .elem = on_ints ? Elem::i32 : Elem::f32};
  return reduce(op, self, lines, out, f, wgsl::finish_sum);
}

Status variance(Lowering& op, const Tensor& self, const std::optional<Ints>& dims, double correction, bool keepdim,
                Out& out) {
  TRY_ASSIGN(const auto is_folded, some_dims_of(op, self, dims));
  TRY_ASSIGN(auto lines, reduced(op, self, is_folded, keepdim, out));
  lines.params.scalar = static_cast<float>(correction);
  return reduce(op, self, lines, out, kMoments, wgsl::finish_variance);
}

Status var(Lowering& op, const Float<Tensor>& self, const std::optional<Ints>& dims, bool unbiased, bool keepdim,
           Float<Out>& out) {
  return variance(op, self, dims, unbiased ? 1 : 0, keepdim, out);
}

Status var_correction(Lowering& op, const Float<Tensor>& self, const std::optional<Ints>& dims,
                      const std::optional<Number>& correction, bool keepdim, Float<Out>& out) {
  return variance(op, self, dims, correction ? correction->value : 1, keepdim, out);
}

Status extreme(Lowering& op, const Tensor& self, const DimSet& is_folded, bool keepdim, Out& out, const Order& order,
               const Shader& finish) {
  TRY_ASSIGN(auto lines, reduced(op, self, is_folded, keepdim, out));
  const auto width = lines.params.width;
  if (width == 0 && lines.params.lines > 0) {
    return op.fail("self has shape {}: no elements to choose from", self.shape);
  }
  if (width > 0x7fffffff) return op.fail("self has {} elements to choose from, too many", width);
  const Fold f{.shader = &wgsl::fold_extreme,
               .elements = is_float(self.dtype) ? order.floats : order.ints,
               .lanes = 2,
               .elem = Elem::i32};
  return reduce(op, self, lines, out, f, finish);
}

template <const Order& order>
Status extreme_value(Lowering& op, const Tensor& self, const std::optional<Ints>& dims, bool keepdim, Out& out) {
  if (is_float(self.dtype) != is_float(out.dtype)) {
    return op.fail("self is {}, but the output is {}", self.dtype, out.dtype);
  }
  TRY_ASSIGN(const auto is_folded, some_dims_of(op, self, dims));
  return extreme(op, self, is_folded, keepdim, out, order, wgsl::finish_extreme);
}

/// argmax and argmin.
template <const Order& order>
Status extreme_place(Lowering& op, const Tensor& self, const std::optional<std::int64_t>& dim, bool keepdim, Out& out) {
  if (out.dtype != DType::i32) return op.fail("out must be int32, but it is {}", out.dtype);
  TRY_ASSIGN(const auto is_folded, dims_of(op, self, dim));
  return extreme(op, self, is_folded, keepdim, out, order, wgsl::finish_place);
}

template <class Dims>
Status any_of(Lowering& op, const Tensor& self, const std::optional<Dims>& dim, bool keepdim, Out& out) {
  if (out.dtype != DType::boolean) return op.fail("out must be bool, but it is {}", out.dtype);
  TRY_ASSIGN(const auto is_folded, dims_of(op, self, dim));
  TRY_ASSIGN(auto lines, reduced(op, self, is_folded, keepdim, out));
  const Fold f{
      .shader = &wgsl::fold_any, .elements = is_float(self.dtype) ? &wgsl::floats : &wgsl::ints, .elem = Elem::i32};
  return reduce(op, self, lines, out, f, wgsl::finish_any);
}

Status any_of_all(Lowering& op, const Tensor& self, Out& out) { return any_of<Ints>(op, self, {}, false, out); }

constexpr std::string_view kSumArgs = "self, dim, keepdim, dtype -> out";
constexpr std::string_view kArgs = "self, dim, keepdim -> out";
constexpr Note kPlace = "any dim or all; the first of equal elements; NaN wins";

constexpr Op kReduceOps[] = {
    open<sum<true>>("aten.mean.dim", kSumArgs, "any dims"),
    open<sum<false>>("aten.sum.dim_IntList", kSumArgs, "any dims"),
    op<var>("aten.var.dim", "self, dim, unbiased, keepdim -> out", "any dims"),
    op<var_correction>("aten.var.correction", "self, dim, correction, keepdim -> out", "any dims"),
    open<extreme_value<kMax>>("aten.amax.default", kArgs, "any dims; NaN wins"),
    open<extreme_value<kMin>>("aten.amin.default", kArgs, "any dims; NaN wins"),
    op<any_of<std::int64_t>>("aten.any.dim", kArgs, "NaN is true"),
    op<any_of<Ints>>("aten.any.dims", kArgs, "NaN is true; an empty list keeps all dims"),
    op<any_of_all>("aten.any.default", "self -> out", "NaN is true"),
    op<extreme_place<kMax>>("aten.argmax.default", kArgs, kPlace),
    op<extreme_place<kMin>>("aten.argmin.default", kArgs, kPlace),
};

}  // namespace

const Family kReduce{"reduce", kReduceOps, {&kFold}};

}  // namespace nibble::ops
