// Tensors side by side along a dimension. Seen as rows (what lies outside the dimension) each input is a run of
// columns. Up to seven inputs are bound at once, and each thread makes one vec4 of the output, so no two threads touch
// one word.
#include <algorithm>
#include <numeric>

#include "ops/families.hpp"
#include "ops/move/move.hpp"

namespace nibble::ops {
namespace {

constexpr std::size_t kAtOnce = kMaxBindings - 1;

/// torch lets an empty vector stand beside tensors of any shape.
bool is_nothing(const Tensor& t) { return t.rank() == 1 && t.shape[0] == 0; }

/// The dimension, and the output's shape.
Result<std::size_t> check(const Lowering& op, const Tensors& tensors, std::int64_t dim, const Out& out, Shape& shape) {
  std::optional<Tensor> first;
  std::size_t d = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors.has(i)) return op.fail("tensors[{}] is missing", i);
    const Tensor t = tensors[i];
    if (t.dtype != out.dtype && !is_float(out.dtype) && out.dtype != DType::i32) {
      return op.fail("tensors[{}] is {}, but the output is {}", i, t.dtype, out.dtype);
    }
    if (is_nothing(t)) continue;
    if (t.rank() == 0) return op.fail("tensors[{}] is a scalar, which has no dimension to put others beside", i);
    if (!first) {
      first = t;
      TRY_ASSIGN(d, op.dim(dim, t.rank(), "dim"));
      shape = t.shape;
      continue;
    }
    bool fits = t.rank() == shape.rank();
    for (std::size_t k = 0; fits && k < t.rank(); ++k) fits = k == d || t.shape[k] == shape[k];
    if (!fits) {
      return op.fail("tensors[{}] has shape {}, which does not go beside {} along dimension {}", i, t.shape,
                     first->shape, d);
    }
    shape[d] += t.shape[d];
  }
  if (!first) shape = {0};
  return d;
}

Status cat(Lowering& op, const Tensors& tensors, std::int64_t dim, Out& out) {
  if (tensors.size() == 0) return op.fail("tensors is an empty list");
  Shape shape;
  TRY_ASSIGN(const auto d, check(op, tensors, dim, out, shape));
  TRY(op.set_shape(out, shape));

  const auto rows = wrapping_product(shape.dims().first(d));
  const auto inner = wrapping_product(shape.dims().subspan(d + 1));
  const auto width_of = [&](const Tensor& t) { return is_nothing(t) ? 0 : wrapping_product(t.shape[d], inner); };
  // A divisor of all widths, as far as it matters.
  std::int64_t unit = 16;
  bool is_one_type = true;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    unit = std::gcd(unit, width_of(tensors[i]));
    is_one_type = is_one_type && tensors[i].dtype == out.dtype;
  }
  const Shader& type = is_one_type ? moved_type(out.dtype) : out.dtype == DType::i32 ? wgsl::ints : wgsl::floats;
  const auto bits = [&](const BufferArg& arg) { return is_one_type ? moved(arg) : arg; };
  constexpr std::array<std::string_view, kAtOnce> kNames{"in0", "in1", "in2", "in3", "in4", "in5", "in6"};

  wgsl::CatParams params;
  params.vectors = unit % 4 == 0 ? vectors_per_thread(op, unit) : 0;
  const bool is_vectors = params.vectors > 0;
  unit = is_vectors ? 4 * std::int64_t{params.vectors} : 1;
  params.count = narrow(shape.numel());
  params.width = narrow(wrapping_product(shape[d], inner) / unit);
  for (std::size_t from = 0; from < tensors.size(); from += kAtOnce) {
    const std::size_t inputs = std::min(kAtOnce, tensors.size() - from);
    Bindings bind;
    params.begin = params.end;
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      // The first input stands in for those that are not there: the kernel never reads it by their names.
      const Tensor t = tensors[from + (i < inputs ? i : 0)];
      bind.push_back(bits(op.read(kNames[i], t)));
      if (i < inputs) params.end += narrow(width_of(t) / unit);
      params.ends[i] = params.end;
    }
    bind.push_back(bits(op.write("result", out)));
    // Columns of several rows that are no vec4s share some with their neighbours: then each one is looked at.
    const bool is_run = rows == 1 && !is_vectors;
    params.first_quad = is_run ? params.begin / 4 : 0;
    params.threads = is_vectors ? narrow(wrapping_product(rows, params.end - params.begin))
                     : is_run   ? narrow(Size(params.end).div_up(4).unchecked()) - params.first_quad
                                : quads_of(shape);
    if (params.begin == params.end) params.threads = 0;
    TRY(op.dispatch({.shader = wgsl::cat,
                     .bind = bind,
                     .params = params,
                     .threads = params.threads,
                     .overrides = {{"INPUTS", static_cast<double>(inputs)}},
                     .slots = {{"type", type}}}));
  }
  return {};
}

constexpr Op kCatOps[] = {
    op<cat>("aten.cat.default", "tensors, dim -> out", "any number of inputs, any dim; mixed types to float or int32"),
};

}  // namespace

const Family kCat{"cat", kCatOps};

}  // namespace nibble::ops
