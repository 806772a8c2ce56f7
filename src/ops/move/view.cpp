// Ops that change the shape and no element. Where the plan made the output an alias, they cost nothing at run time.
#include "ops/families.hpp"
#include "ops/move/move.hpp"

namespace nibble::ops {
namespace {

Status reshape(Lowering& op, const Tensor& self, Out& out, const Shape& shape) {
  if (self.dtype != out.dtype) return op.fail("self is {}, but the output is {}", self.dtype, out.dtype);
  TRY(op.set_shape(out, shape));
  return convert(op, self, out);
}

template <class... Formats>
Status same(Lowering& op, const Tensor& self, Formats..., View& out) {
  return reshape(op, self, out, self.shape);
}

Status view(Lowering& op, const Tensor& self, const LiveInts& size, View& out) {
  Shape shape;
  std::size_t inferred = Shape::kMaxRank;
  Size known = 1;
  for (std::size_t i = 0; i < size.size(); ++i) {
    if (!shape.push_back(size[i])) return op.fail("size has {} entries, more than {}", size.size(), Shape::kMaxRank);
    if (size[i] == -1 && inferred == Shape::kMaxRank) {
      inferred = i;
    } else {
      known = known * Size::from_signed(size[i]);
    }
  }
  const auto numel = static_cast<std::uint64_t>(self.numel());
  if (inferred != Shape::kMaxRank && known.valid() && known.unchecked() != 0 && numel % known.unchecked() == 0) {
    shape[inferred] = static_cast<std::int64_t>(numel / known.unchecked());
    known = numel;
  }
  if (!known.valid() || known.unchecked() != numel) {
    return op.fail("cannot view {} ({} elements) as {}", self.shape, numel, shape);
  }
  return reshape(op, self, out, shape);
}

template <class Dims>
Status squeeze(Lowering& op, const Tensor& self, const Dims& dims, View& out) {
  TRY_ASSIGN(const auto dropped, op.dims(dims, self.rank(), "dim"));
  Shape left;
  for (std::size_t i = 0; i < self.rank(); ++i) {
    if (!dropped[i] || self.shape[i] != 1) left.push_back(self.shape[i]);
  }
  return reshape(op, self, out, left);
}

Status unsqueeze(Lowering& op, const Tensor& self, std::int64_t dim, View& out) {
  TRY_ASSIGN(const auto at, op.dim(dim, self.rank() + 1, "dim"));
  Shape shape;
  for (std::size_t i = 0; i <= self.rank(); ++i) {
    if (i == at) shape.push_back(1);
    if (i < self.rank()) shape.push_back(self.shape[i]);
  }
  return reshape(op, self, out, shape);
}

constexpr Op kViewOps[] = {
    op<same<>>("et_vk.prepack.default", "self -> out", "folded into the constant at load"),
    op<same<>>("aten.alias_copy.default", "self -> out", "a view"),
    op<same<Ignored>>("aten.clone.default", "self, memory_format -> out", "a view"),
    op<same<Ignored, Ignored>>("dim_order_ops._clone_dim_order.default", "self, non_blocking, dim_order -> out",
                               "a view; contiguous"),
    op<view>("aten.view_copy.default", "self, size -> out", "a view; sizes may be SymInts or -1"),
    op<squeeze<Ints>>("aten.squeeze_copy.dims", "self, dim -> out", "a view"),
    op<squeeze<std::int64_t>>("aten.squeeze_copy.dim", "self, dim -> out", "a view"),
    op<unsqueeze>("aten.unsqueeze_copy.default", "self, dim -> out", "a view"),
};

}  // namespace

const Family kView{"view", kViewOps};

}  // namespace nibble::ops
