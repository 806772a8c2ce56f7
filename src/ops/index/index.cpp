// Elements picked by tensors of indices. A negative index counts from the end. The kernel checks them all: the host
// does not know how many rows a table has in this call.
#include <algorithm>
#include <utility>

#include "ops/move.hpp"
#include "ops/ops.hpp"
#include "ops/strides.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

std::uint32_t narrow(std::int64_t n) { return static_cast<std::uint32_t>(n); }

/// What both kernels look an index up in.
struct Rows {
  std::int64_t count = 0;
  std::int64_t stride = 0;
};

/// The output's dimensions, outermost first, with the distances that a step along each makes in the source and among
/// the indices. Neighbours that make one run are merged.
struct Lookup {
  Shape shape;
  bool fits = true;  ///< the shape has no more dimensions than a shape may have
  std::size_t rank = 0;
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  std::array<std::int64_t, Shape::kMaxRank> strides{};
  std::array<std::int64_t, Shape::kMaxRank> id_strides{};

  void add(std::int64_t size, std::int64_t stride, std::int64_t id_stride) {
    fits = shape.push_back(size) && fits;
    if (size == 1 || !fits) return;
    if (rank > 0 && strides[rank - 1] == wrapping_product(size, stride) &&
        id_strides[rank - 1] == wrapping_product(size, id_stride)) {
      sizes[rank - 1] = wrapping_product(sizes[rank - 1], size);
    } else {
      sizes[rank++] = size;
    }
    strides[rank - 1] = stride;
    id_strides[rank - 1] = id_stride;
  }
};

struct Params {
  std::uint32_t threads = 0;
  std::uint32_t count = 0;
  std::uint32_t rank = 0;
  std::uint32_t vectors = 0;
  std::uint32_t rows = 0;
  std::uint32_t row_stride = 0;
  std::uint32_t node = 0;
  std::uint32_t site = 0;
  Dims sizes{};
  Dims strides{};
  Dims id_strides{};
};

Status check_indices(OpContext& op, const Tensor& ids, std::int64_t rows) {
  if (ids.dtype != DType::i32) return op.fail("{} must be int32, but it is {}", ids.arg, ids.dtype);
  if (rows > 0x7fffffff) return op.fail("{} pick from {} entries, more than int32 reaches", ids.arg, rows);
  return {};
}

Status set_shape(OpContext& op, const Tensor& self, Out& out, const Lookup& lookup) {
  if (self.dtype != out.dtype) return op.fail("self is {}, but the output is {}", self.dtype, out.dtype);
  if (!lookup.fits) return op.fail("the output would have more than {} dimensions", Shape::kMaxRank);
  return op.set_shape(out, lookup.shape);
}

/// Without `ids`, the node's scratch memory holds distances.
Status pick(OpContext& op, const Tensor& self, const std::optional<Tensor>& ids, Rows rows, Out& out, Lookup lookup) {
  Params params;
  params.count = narrow(lookup.shape.numel());
  params.rank = narrow(static_cast<std::int64_t>(lookup.rank));
  params.rows = narrow(rows.count);
  params.node = op.node();
  if (ids) params.site = op.add_fault_site(*ids, rows.count);

  const std::size_t last = lookup.rank - 1;
  bool is_vectors = ids && lookup.rank > 0 && lookup.strides[last] == 1 && lookup.id_strides[last] == 0 &&
                    lookup.sizes[last] % 4 == 0 && rows.stride % 4 == 0;
  for (std::size_t i = 0; is_vectors && i < last; ++i) is_vectors = lookup.strides[i] % 4 == 0;
  const std::int64_t unit = is_vectors ? 4 : 1;
  params.vectors = is_vectors ? vectors_per_thread(op, lookup.sizes[last]) : 0;
  params.threads = quads_of(lookup.shape) / std::max(1U, params.vectors);
  params.row_stride = narrow(rows.stride / unit);
  for (std::size_t i = 0; i < lookup.rank; ++i) {
    const bool is_run = is_vectors && i == last;
    params.sizes[i] = narrow(is_run ? lookup.sizes[i] / 4 / params.vectors : lookup.sizes[i]);
    params.strides[i] = is_run ? params.vectors : narrow(lookup.strides[i] / unit);
    params.id_strides[i] = narrow(lookup.id_strides[i]);
  }
  Bindings bind{op.read("source", self).raw(moved_as(self.dtype)),
                ids ? op.read("ids", *ids).lanes(1) : op.read_scratch("ids", Elem::i32).lanes(1),
                op.write("result", out).raw(moved_as(self.dtype))};
  if (ids) bind.add(op.fault());
  return op.dispatch({.shader = wgsl::index,
                      .bind = bind,
                      .params = params_of(params),
                      .threads = params.threads,
                      .overrides = {{"COMBINED", ids ? 0.0 : 1.0}},
                      .lines = {moved_type(self.dtype)}});
}

/// Adds up, in scratch memory, how far each tuple of indices leads.
Status combine(OpContext& op, const Tensors& indices, const Shape& self, const Shape& common) {
  const auto strides = contiguous_strides(self);
  op.need_scratch(Size::of(common) * 4);
  bool is_first = true;
  for (std::size_t k = 0; k < indices.size(); ++k) {
    if (!indices.has(k)) continue;
    const Tensor ids = indices[k];
    const auto own = contiguous_strides(ids.shape);
    struct {
      std::uint32_t count = 0;
      std::uint32_t rank = 0;
      std::uint32_t is_first = 0;
      std::uint32_t rows = 0;
      std::uint32_t row_stride = 0;
      std::uint32_t node = 0;
      std::uint32_t site = 0;
      std::uint32_t pad = 0;
      Dims sizes{};
      Dims id_strides{};
    } params;
    params.count = narrow(common.numel());
    params.rank = narrow(static_cast<std::int64_t>(common.rank()));
    params.is_first = std::exchange(is_first, false) ? 1 : 0;
    params.rows = narrow(self[k]);
    params.row_stride = narrow(strides[k]);
    params.node = op.node();
    params.site = op.add_fault_site(ids, self[k]);
    const std::size_t added = common.rank() - ids.rank();
    for (std::size_t i = 0; i < common.rank(); ++i) {
      params.sizes[i] = narrow(common[i]);
      params.id_strides[i] = i < added || ids.shape[i - added] == 1 ? 0 : narrow(own[i - added]);
    }
    TRY(op.dispatch(
        {.shader = wgsl::index_distances,
         .bind = {op.read("ids", ids).lanes(1), op.write_scratch("distances", Elem::i32).lanes(1), op.fault()},
         .params = params_of(params),
         .threads = params.count}));
  }
  return {};
}

}  // namespace

Status index(OpContext& op) {
  TRY_BIND((self, indices, out), op.args<Tensor, Tensors, Out>({"self", "indices", "out"}));
  if (indices.size() > self.rank()) {
    return op.fail("indices has {} entries, but self has {} dimensions", indices.size(), self.rank());
  }
  std::size_t given = 0;
  std::size_t first = 0;
  std::size_t last = 0;
  Shape common;
  for (std::size_t k = 0; k < indices.size(); ++k) {
    if (!indices.has(k)) continue;
    TRY(check_indices(op, indices[k], self.shape[k]));
    const Shape before = common;
    if (!broadcast(before, indices[k].shape, common)) {
      return op.fail("indices[{}] has shape {}, which does not broadcast with {}", k, indices[k].shape, before);
    }
    if (given++ == 0) first = k;
    last = k;
  }
  if (given == 0) return op.fail("indices holds no tensor");

  // The picked dimensions come where the indices are if those are neighbours, else in front.
  const std::size_t at = last - first + 1 == given ? first : 0;
  const auto strides = contiguous_strides(self.shape);
  const auto id_strides = contiguous_strides(common);
  Lookup lookup;
  for (std::size_t k = 0; k <= self.rank(); ++k) {
    for (std::size_t i = 0; k == at && i < common.rank(); ++i) lookup.add(common[i], 0, id_strides[i]);
    if (k < self.rank() && (k >= indices.size() || !indices.has(k))) lookup.add(self.shape[k], strides[k], 0);
  }
  TRY(set_shape(op, self, out, lookup));
  op.need_dispatches(static_cast<std::uint32_t>(given + 2));
  if (given == 1) return pick(op, self, indices[first], {self.shape[first], strides[first]}, out, lookup);
  TRY(combine(op, indices, self.shape, common));
  return pick(op, self, std::nullopt, {}, out, lookup);
}

Status index_select(OpContext& op) {
  TRY_BIND((self, dim, ids, out), op.args<Tensor, std::int64_t, Tensor, Out>({"self", "dim", "index", "out"}));
  TRY_ASSIGN(const auto d, op.dim(dim, self.rank(), "dim"));
  if (ids.rank() > 1) return op.fail("index must be a vector, but its shape is {}", ids.shape);
  if (self.rank() == 0 && ids.numel() != 1) {
    return op.fail("index must have one entry to pick from a scalar, but its shape is {}", ids.shape);
  }
  const auto strides = contiguous_strides(self.shape);
  const Rows rows = self.rank() == 0 ? Rows{1, 1} : Rows{self.shape[d], strides[d]};
  TRY(check_indices(op, ids, rows.count));
  Lookup lookup;
  for (std::size_t i = 0; i < self.rank(); ++i) {
    if (i == d) {
      lookup.add(ids.numel(), 0, 1);
    } else {
      lookup.add(self.shape[i], strides[i], 0);
    }
  }
  TRY(set_shape(op, self, out, lookup));
  return pick(op, self, ids, rows, out, lookup);
}

Status gather(OpContext& op) {
  TRY_BIND((self, dim, ids, sparse_grad, out),
           op.args<Tensor, std::int64_t, Tensor, Ignored, Out>({"self", "dim", "index", "sparse_grad", "out"}));
  TRY_ASSIGN(const auto d, op.dim(dim, self.rank(), "dim"));
  bool fits = ids.rank() == self.rank();
  for (std::size_t i = 0; fits && i < self.rank(); ++i) fits = i == d || ids.shape[i] <= self.shape[i];
  if (!fits && ids.numel() != 0) {
    return op.fail("index has shape {}, but a self of shape {} takes one as large at most, except in dimension {}",
                   ids.shape, self.shape, d);
  }
  const auto strides = contiguous_strides(self.shape);
  const auto id_strides = contiguous_strides(ids.shape);
  const Rows rows = self.rank() == 0 ? Rows{1, 1} : Rows{self.shape[d], strides[d]};
  TRY(check_indices(op, ids, rows.count));
  Lookup lookup;
  for (std::size_t i = 0; i < ids.rank(); ++i) lookup.add(ids.shape[i], i == d ? 0 : strides[i], id_strides[i]);
  TRY(set_shape(op, self, out, lookup));
  return pick(op, self, ids, rows, out, lookup);
}

}  // namespace nibble::ops
