// Sums and means over any dimensions. Each output's elements are shared among a number of threads that grows as the
// outputs get fewer; where there is more than one, a second dispatch adds their partial sums. No barrier, so it suits
// CPU adapters, and enough threads for a GPU.
#include <algorithm>

#include "ops/ops.hpp"
#include "ops/strides.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

struct Params {
  std::uint32_t outputs = 0;
  std::uint32_t reduced = 0;  ///< elements per output
  std::uint32_t parts = 0;    ///< threads per output
  std::uint32_t kept_rank = 0;
  std::uint32_t reduced_rank = 0;
  std::uint32_t neighbours = 0;  ///< 1: neighbouring threads take neighbouring outputs, 0: neighbouring elements
  float divisor = 1;
  std::uint32_t pad = 0;
  Dims kept_sizes{};
  Dims reduced_sizes{};
  Dims kept_strides{};
  Dims reduced_strides{};
};

/// Appends a dimension, outermost first, to one of the two lists; merged with the one before where they are one run.
void append(Dims& sizes, Dims& strides, std::uint32_t& rank, std::uint32_t size, std::uint32_t stride) {
  if (size == 1) return;
  if (rank > 0 && strides[rank - 1] == size * stride) {
    sizes[rank - 1] *= size;
    strides[rank - 1] = stride;
    return;
  }
  sizes[rank] = size;
  strides[rank] = stride;
  ++rank;
}

// With 64K threads every GPU is full; with 64 elements a thread has something to do.
constexpr std::uint64_t kThreads = 65536;
constexpr std::uint64_t kElementsPerThread = 64;
constexpr std::uint64_t kMostParts = 1024;

std::uint32_t choose_parts(std::uint64_t outputs, std::uint64_t reduced) {
  const auto wanted =
      std::min({kThreads / std::max<std::uint64_t>(1, outputs), reduced / kElementsPerThread, kMostParts});
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, wanted));
}

Status reduce(OpContext& op, const Tensor& self, const std::optional<Ints>& dims, bool keepdim, Out& out,
              bool is_mean) {
  const bool on_ints = out.dtype == DType::i32;
  if ((out.dtype != DType::f32 && out.dtype != DType::f16 && !on_ints) || (on_ints && is_mean) ||
      (on_ints && (self.dtype == DType::f32 || self.dtype == DType::f16))) {
    return op.fail("cannot reduce {} to {}", self.dtype, out.dtype);
  }
  // No dims, or an empty list, means all of them.
  const bool all = !dims || dims->size() == 0;
  std::array<bool, Shape::kMaxRank> is_reduced{};
  is_reduced.fill(all);
  for (std::size_t i = 0; !all && i < dims->size(); ++i) {
    TRY_ASSIGN(const auto d, op.dim((*dims)[i], self.rank(), "dim"));
    is_reduced[d] = true;
  }

  Params params;
  Shape shape;
  Size outputs = 1;
  Size reduced = 1;
  auto stride = static_cast<std::uint64_t>(self.numel());
  for (std::size_t i = 0; i < self.rank(); ++i) {
    const auto size = static_cast<std::uint64_t>(self.shape[i]);
    stride = size == 0 ? 0 : stride / size;
    const auto narrow = static_cast<std::uint32_t>(size);
    if (is_reduced[i]) {
      reduced = reduced * size;
      append(params.reduced_sizes, params.reduced_strides, params.reduced_rank, narrow,
             static_cast<std::uint32_t>(stride));
      if (keepdim) shape.push_back(1);
    } else {
      outputs = outputs * size;
      append(params.kept_sizes, params.kept_strides, params.kept_rank, narrow, static_cast<std::uint32_t>(stride));
      shape.push_back(self.shape[i]);
    }
  }
  TRY(op.set_shape(out, shape));

  params.outputs = static_cast<std::uint32_t>(outputs.unchecked());
  params.reduced = static_cast<std::uint32_t>(reduced.unchecked());
  params.parts = choose_parts(params.outputs, params.reduced);
  // Neighbouring lanes should read neighbouring addresses: along the outputs, if those are the innermost dimension.
  params.neighbours = params.kept_rank > 0 && params.kept_strides[params.kept_rank - 1] == 1 ? 1 : 0;
  params.divisor = is_mean ? static_cast<float>(params.reduced) : 1.0F;

  const std::string_view type = on_ints ? "alias T = i32;" : "alias T = f32;";
  const Elem partial = on_ints ? Elem::i32 : Elem::f32;
  const auto bound = Size::of(op.bound(out));
  op.need_scratch((bound.fits(kThreads) ? Size(kThreads) : bound) * 4);
  op.need_dispatches(3);
  TRY(op.dispatch({.shader = wgsl::reduce,
                   .bind = {op.read("source", self), op.write_scratch("partial_sums", partial).lanes(1)},
                   .params = params_of(params),
                   .threads = (Size(params.outputs) * params.parts).unchecked(),
                   .lines = {type}}));
  const auto quads = Size(params.outputs).div_up(4).unchecked();
  return op.dispatch({.shader = wgsl::reduce_parts,
                      .bind = {op.read_scratch("partial_sums", partial).lanes(1), op.write("result", out)},
                      .params = params_of(params),
                      .threads = quads,
                      .lines = {type}});
}

}  // namespace

Status mean(OpContext& op) {
  TRY_BIND((self, dims, keepdim, dtype, out),
           op.args<Tensor, std::optional<Ints>, bool, Ignored, Out>({"self", "dim", "keepdim", "dtype", "out"}));
  return reduce(op, self, dims, keepdim, out, true);
}

Status sum(OpContext& op) {
  TRY_BIND((self, dims, keepdim, dtype, out),
           op.args<Tensor, std::optional<Ints>, bool, Ignored, Out>({"self", "dim", "keepdim", "dtype", "out"}));
  return reduce(op, self, dims, keepdim, out, false);
}

}  // namespace nibble::ops
