// Ops that change the shape and no element. Where the plan made the output an alias, they cost nothing at run time.
#include "ops/ops.hpp"

namespace nibble::ops {
namespace {

Status reshape(OpContext& op, const Tensor& self, Out& out, const Shape& shape) {
  if (self.dtype != out.dtype) return op.fail("self is {}, but the output is {}", self.dtype, out.dtype);
  TRY(op.set_shape(out, shape));
  return convert(op, self, out);
}

Shape without(const Shape& shape, const std::array<bool, Shape::kMaxRank>& dropped) {
  Shape left;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (!dropped[i] || shape[i] != 1) left.push_back(shape[i]);
  }
  return left;
}

}  // namespace

Status prepack(OpContext& op) {
  TRY_BIND((self, out), op.args<Tensor, Out>({"self", "out"}));
  return reshape(op, self, out, self.shape);
}

Status clone(OpContext& op) {
  TRY_BIND((self, format, out), op.args<Tensor, Ignored, Out>({"self", "memory_format", "out"}));
  return reshape(op, self, out, self.shape);
}

Status clone_dim_order(OpContext& op) {
  TRY_BIND((self, non_blocking, dim_order, out),
           op.args<Tensor, Ignored, Ignored, Out>({"self", "non_blocking", "dim_order", "out"}));
  return reshape(op, self, out, self.shape);
}

Status view(OpContext& op) {
  TRY_BIND((self, size, out), op.args<Tensor, Ints, Out>({"self", "size", "out"}));
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

Status squeeze(OpContext& op) {
  TRY_BIND((self, dims, out), op.args<Tensor, Ints, Out>({"self", "dim", "out"}));
  std::array<bool, Shape::kMaxRank> dropped{};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    TRY_ASSIGN(const auto d, op.dim(dims[i], self.rank(), "dim"));
    dropped[d] = true;
  }
  return reshape(op, self, out, without(self.shape, dropped));
}

Status squeeze_dim(OpContext& op) {
  TRY_BIND((self, dim, out), op.args<Tensor, std::int64_t, Out>({"self", "dim", "out"}));
  std::array<bool, Shape::kMaxRank> dropped{};
  TRY_ASSIGN(const auto d, op.dim(dim, self.rank(), "dim"));
  dropped[d] = true;
  return reshape(op, self, out, without(self.shape, dropped));
}

Status unsqueeze(OpContext& op) {
  TRY_BIND((self, dim, out), op.args<Tensor, std::int64_t, Out>({"self", "dim", "out"}));
  TRY_ASSIGN(const auto at, op.dim(dim, self.rank() + 1, "dim"));
  Shape shape;
  for (std::size_t i = 0; i <= self.rank(); ++i) {
    if (i == at) shape.push_back(1);
    if (i < self.rank()) shape.push_back(self.shape[i]);
  }
  return reshape(op, self, out, shape);
}

}  // namespace nibble::ops
