// Elements picked by tensors of indices. A negative index counts from the end. The kernel checks them all: the host
// does not know how many rows a table has in this call.
#include <algorithm>
#include <utility>

#include "ops/elementwise/strides.hpp"
#include "ops/families.hpp"
#include "ops/move/move.hpp"

namespace nibble::ops {
namespace {

/// What an index is looked up in.
struct Rows {
  std::int64_t count = 0;
  std::int64_t stride = 0;

  /// Those along a dimension; a scalar counts as one.
  static Rows along(const Shape& shape, std::size_t dim) {
    return shape.rank() == 0 ? Rows{1, 1} : Rows{shape[dim], Walk(shape).dims[dim].stride};
  }
};

Status check_indices(const Lowering& op, const Tensor& ids, std::int64_t rows) {
  if (ids.dtype != DType::i32) return op.fail("{} must be int32, but it is {}", ids.arg, ids.dtype);
  if (rows > 0x7fffffff) return op.fail("{} pick from {} entries, more than int32 reaches", ids.arg, rows);
  return {};
}

Status set_shape(Lowering& op, const Tensor& self, Out& out, const Walk& walk) {
  if (self.dtype != out.dtype) return op.fail("self is {}, but the output is {}", self.dtype, out.dtype);
  if (!walk.fits) return op.fail("the output would have more than {} dimensions", Shape::kMaxRank);
  return op.set_shape(out, walk.shape);
}

/// The parameters of a kernel that walks through `ids` and looks them up in `rows`.
wgsl::WalkParams lookup_params(Lowering& op, const Walk& walk, const Tensor& ids, Rows rows, bool in_vectors) {
  wgsl::WalkParams params = walk_params(op, walk, in_vectors);
  params.rows = narrow(rows.count);
  params.row_stride = narrow(rows.stride / (in_vectors ? 4 : 1));
  params.node = op.node();
  params.site = op.add_fault_site(ids, rows.count);
  return params;
}

Kernel pick_kernel(Lowering& op, const Tensor& self, const BufferArg& ids, const Out& out,
                   const wgsl::WalkParams& params, const Shader& distance) {
  return {.shader = wgsl::index,
          .bind = {moved(op.read("source", self)), ids.lanes(1), moved(op.write("result", out))},
          .params = params,
          .threads = params.threads,
          .slots = {{"type", moved_type(self.dtype)}, {"distance", distance}}};
}

/// By one tensor of indices: the walk's other strides are those among them.
Status pick(Lowering& op, const Tensor& self, const Tensor& ids, Rows rows, Out& out, Walk walk) {
  TRY(set_shape(op, self, out, walk));
  walk.merge();
  const bool in_vectors = walk.is_whole_vectors() && rows.stride % 4 == 0;
  Kernel kernel = pick_kernel(op, self, op.read("ids", ids), out, lookup_params(op, walk, ids, rows, in_vectors),
                              wgsl::row_of_index);
  kernel.bind.push_back(Lowering::fault());
  return op.dispatch(kernel);
}

/// By several, whose shapes broadcast to `common`: first they are added up, in scratch memory, to how far each tuple of
/// them leads.
Status pick_by_tuples(Lowering& op, const Tensor& self, const Tensors& indices, const Shape& common, Out& out,
                      Walk walk) {
  TRY(set_shape(op, self, out, walk));
  walk.merge();
  // Bounds need not broadcast, but no live size is larger than the largest of them.
  Shape most = common;
  for (std::size_t k = 0; k < indices.size(); ++k) {
    if (!indices.has(k)) continue;
    const Shape& bound = op.bound(indices[k]);
    const std::size_t added = most.rank() - bound.rank();
    for (std::size_t i = 0; i < bound.rank(); ++i) most[added + i] = std::max(most[added + i], bound[i]);
  }
  TRY_ASSIGN(const auto scratch, op.scratch(Size::of(most) * 4));
  bool is_first = true;
  for (std::size_t k = 0; k < indices.size(); ++k) {
    if (!indices.has(k)) continue;
    const Tensor ids = indices[k];
    const Walk own(ids.shape);
    const std::size_t added = common.rank() - ids.rank();
    Walk repeated;
    for (std::size_t i = 0; i < common.rank(); ++i) {
      repeated.add({common[i], i < added || ids.shape[i - added] == 1 ? 0 : own.dims[i - added].stride});
    }
    repeated.merge();
    wgsl::WalkParams params = lookup_params(op, repeated, ids, Rows::along(self.shape, k), false);
    params.is_first = std::exchange(is_first, false) ? 1 : 0;
    TRY(op.dispatch(
        {.shader = wgsl::index_distances,
         .bind = {op.read("ids", ids).lanes(1), scratch.write("distances", Elem::i32).lanes(1), Lowering::fault()},
         .params = params,
         .threads = params.count}));
  }
  return op.dispatch(
      pick_kernel(op, self, scratch.read("ids", Elem::i32), out, walk_params(op, walk, false), wgsl::known_distance));
}

Status index(Lowering& op, const Tensor& self, const Tensors& indices, Out& out) {
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
  const Walk source(self.shape);
  const Walk picked(common);
  Walk walk;
  for (std::size_t k = 0; k <= self.rank(); ++k) {
    for (std::size_t i = 0; k == at && i < common.rank(); ++i) walk.add({common[i], 0, picked.dims[i].stride});
    if (k < self.rank() && (k >= indices.size() || !indices.has(k))) walk.add(source.dims[k]);
  }
  if (given == 1) return pick(op, self, indices[first], Rows::along(self.shape, first), out, walk);
  return pick_by_tuples(op, self, indices, common, out, walk);
}

Status index_select(Lowering& op, const Tensor& self, std::int64_t dim, const Ids& ids, Out& out) {
  TRY_ASSIGN(const auto d, op.dim(dim, self.rank(), "dim"));
  if (ids.rank() > 1) return op.fail("index must be a vector, but its shape is {}", ids.shape);
  if (self.rank() == 0 && ids.numel() != 1) {
    return op.fail("index must have one entry to pick from a scalar, but its shape is {}", ids.shape);
  }
  const Rows rows = Rows::along(self.shape, d);
  TRY(check_indices(op, ids, rows.count));
  const Walk source(self.shape);
  Walk walk;
  for (std::size_t i = 0; i < self.rank(); ++i) walk.add(i == d ? Walk::Dim{ids.numel(), 0, 1} : source.dims[i]);
  return pick(op, self, ids, rows, out, walk);
}

Status gather(Lowering& op, const Tensor& self, std::int64_t dim, const Ids& ids, Ignored, Out& out) {
  TRY_ASSIGN(const auto d, op.dim(dim, self.rank(), "dim"));
  bool fits = ids.rank() == self.rank();
  for (std::size_t i = 0; fits && i < self.rank(); ++i) fits = i == d || ids.shape[i] <= self.shape[i];
  if (!fits && ids.numel() != 0) {
    return op.fail("index has shape {}, but a self of shape {} takes one as large at most, except in dimension {}",
                   ids.shape, self.shape, d);
  }
  const Rows rows = Rows::along(self.shape, d);
  TRY(check_indices(op, ids, rows.count));
  const Walk source(self.shape);
  const Walk picked(ids.shape);
  Walk walk;
  for (std::size_t i = 0; i < ids.rank(); ++i) {
    walk.add({ids.shape[i], i == d ? 0 : source.dims[i].stride, picked.dims[i].stride});
  }
  return pick(op, self, ids, rows, out, walk);
}

constexpr Note kNegative = "int32 index; negative entries count from the end";

constexpr Op kIndexOps[] = {
    op<index>("aten.index.Tensor", "self, indices -> out",
              "int32 indices, any number, broadcast, with gaps; negative ones count from the end"),
    op<index_select>("aten.index_select.default", "self, dim, index -> out", kNegative),
    op<gather>("aten.gather.default", "self, dim, index, sparse_grad -> out", kNegative),
};

}  // namespace

const Family kIndex{"index", kIndexOps};

}  // namespace nibble::ops
