// Products of float matrices: linear, mm, bmm, addmm.
#include "ops/families.hpp"
#include "ops/product/product.hpp"

namespace nibble::ops {
namespace {

/// self [batches, rows, depth] times mat2 [batches, depth, columns]; the batch dimension may be missing.
Status multiply_matrices(Lowering& op, const Tensor& self, const Columns& mat2, std::size_t rank,
                         const std::optional<Tensor>& addend, float beta, float alpha, Out& out) {
  if (self.rank() != rank || mat2.rank() != rank) {
    return op.fail("{} and {} must have {} dimensions, but their shapes are {} and {}", self.arg, mat2.arg, rank,
                   self.shape, mat2.shape);
  }
  const std::int64_t rows = self.shape[rank - 2];
  const std::int64_t depth = self.shape[rank - 1];
  const std::int64_t columns = mat2.shape[rank - 1];
  if (mat2.shape[rank - 2] != depth || (rank == 3 && self.shape[0] != mat2.shape[0])) {
    return op.fail("shapes {} and {} cannot be multiplied", self.shape, mat2.shape);
  }
  Shape shape = self.shape;
  shape[rank - 1] = columns;
  TRY(op.set_shape(out, shape));

  // Elements are counted in 32 bits, which op.read() checks; so are rows and columns then.
  Product p{.rows = op.extent(narrow(rows), narrow(op.bound(self)[rank - 2]), {&self}),
            .varies = op.varies({&mat2}),
            .max_depth = static_cast<std::uint64_t>(op.bound(self)[rank - 1]),
            .weights = Weights::columns,
            .x = op.read("x", self)};
  auto& params = p.params;
  params.rows = narrow(rows);
  params.depth = narrow(depth);
  params.batches = rank == 3 ? narrow(self.shape[0]) : 1;
  params.alpha = alpha;
  params.beta = beta;
  if (addend) {
    // Broadcast to [rows, columns]: a missing or single dimension is repeated.
    const auto size = [&](std::size_t from_end) {
      return addend->rank() < from_end ? 1 : addend->shape[addend->rank() - from_end];
    };
    if (addend->rank() > 2 || (size(1) != 1 && size(1) != columns) || (size(2) != 1 && size(2) != rows)) {
      return op.fail("{} has shape {}, which does not broadcast to {}", addend->arg, addend->shape, shape);
    }
    params.addend_column = size(1) == 1 ? 0 : 1;
    params.addend_row = size(2) == 1 ? 0 : narrow(size(1));
    p.addend = op.read("addend", *addend);
  }
  p.results[0] = op.write("result", out);
  return op.for_each_row_range(columns, {&mat2}, [&](const RowRange& range) {
    const auto& shard = range.shards[0];
    p.weight = op.read("weight", mat2, shard);
    params.weight_pitch = narrow(op.pitch(mat2, shard));
    params.weight_batch = params.depth * params.weight_pitch;
    params.sections[0] = {
        .width = narrow(range.end - range.begin), .result_first = narrow(range.begin), .result_width = narrow(columns)};
    return multiply(op, p);
  });
}

template <std::size_t Rank>
Status mm(Lowering& op, const Float<Tensor>& self, const Float<Columns>& mat2, Float<Out>& out) {
  return multiply_matrices(op, self, mat2, Rank, {}, 0, 1, out);
}

Status addmm(Lowering& op, const Float<Tensor>& self, const Float<Tensor>& mat1, const Float<Columns>& mat2,
             const Number& beta, const Number& alpha, Float<Out>& out) {
  // With beta 0, self does not count, not even where it is infinite or no number: the kernel sees to it too.
  const auto addend = beta.value == 0 && !beta.is_live ? std::nullopt : std::optional<Tensor>(self);
  return multiply_matrices(op, mat1, mat2, 2, addend, static_cast<float>(beta.value), static_cast<float>(alpha.value),
                           out);
}

Status linear(Lowering& op, const Float<Tensor>& input, const Float<Table>& weight,
              const std::optional<Float<Tensor>>& bias, Float<Out>& out) {
  if (weight.rank() != 2) return op.fail("weight must have 2 dimensions, but its shape is {}", weight.shape);
  TRY_ASSIGN(auto p, product_of(op, input, weight, weight.shape[1]));
  TRY(set_width(op, input, weight.shape[0], out));
  TRY(add_bias(op, p, bias, weight));
  return multiply_table(op, p, weight, out);
}

constexpr Note kAnySize = "constant matrices of any size";

constexpr Op kMatmulOps[] = {
    open<linear>("aten.linear.default", "input, weight, bias -> out", "any rank; weights of any size"),
    open<mm<2>>("aten.mm.default", "self, mat2 -> out", kAnySize),
    open<mm<3>>("aten.bmm.default", "self, mat2 -> out", kAnySize),
    open<addmm>("aten.addmm.default", "self, mat1, mat2, beta, alpha -> out", "self broadcasts; matrices of any size"),
};

}  // namespace

const Family kMatmul{"matmul", kMatmulOps};

}  // namespace nibble::ops
