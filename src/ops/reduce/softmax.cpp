// Softmax and its logarithm over any dimension, stable for any input: the largest element of a line is subtracted.
#include "ops/families.hpp"
#include "ops/reduce/rows.hpp"

namespace nibble::ops {
namespace {

template <const Shader& apply>
Status softmax(Lowering& op, const Float<Tensor>& self, std::int64_t dim, Ignored, Float<Out>& out) {
  TRY_ASSIGN(const auto is_folded, op.dims(dim, self.rank(), "dim"));
  TRY(op.set_shape(out, self.shape));
  auto lines = lines_of(op, self, is_folded);
  return rows(op, {.fold = {.shader = &wgsl::fold_exponentials, .lanes = 2}, .slots = {{"apply", apply}}}, self, lines,
              out);
}

constexpr std::string_view kSoftmaxArgs = "self, dim, half_to_float -> out";

constexpr Op kSoftmaxOps[] = {
    open<softmax<wgsl::apply_softmax>>("aten._softmax.default", kSoftmaxArgs, "any dim"),
    open<softmax<wgsl::apply_log_softmax>>("aten._log_softmax.default", kSoftmaxArgs, "any dim"),
};

}  // namespace

const Family kSoftmax{"softmax", kSoftmaxOps};

}  // namespace nibble::ops
