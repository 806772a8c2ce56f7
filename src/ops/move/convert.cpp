// Changing the element type.
#include "ops/elementwise/elementwise.hpp"
#include "ops/families.hpp"
#include "ops/move/move.hpp"
#include "plan/copy.hpp"

namespace nibble::ops {
namespace {

const Shader& change(DType from, DType to) {
  if (to == DType::boolean) return is_float(from) ? wgsl::float_to_bool : wgsl::int_to_bool;
  if (is_float(from)) return is_float(to) ? wgsl::float_to_float : wgsl::float_to_int;
  return is_float(to) ? wgsl::int_to_float : wgsl::int_to_int;
}

}  // namespace

Status convert(Lowering& op, const Tensor& in, const Out& out) {
  if (op.is_alias(in, out)) return {};
  const auto from = op.read("source", in);
  const auto to = op.write("result", out);
  if (in.dtype == out.dtype) {
    return copy_words(op, from.buffer, to.buffer, Size::bytes(in.shape, in.dtype).unchecked());
  }
  return op.dispatch_quads(wgsl::convert, {from, to}, wgsl::ConvertParams{quads_of(out.shape)},
                           {{"change", change(in.dtype, out.dtype)}});
}

namespace {

Status to_copy(Lowering& op, const Tensor& self, Ignored, Ignored, Ignored, Ignored, Ignored, Ignored, View& out) {
  TRY(op.set_shape(out, self.shape));
  return convert(op, self, out);
}

/// What self holds does not matter, only its shape: src is repeated to it.
Status copy(Lowering& op, const Tensor& self, const Tensor& src, Ignored, Out& out) {
  if (!(src.shape == self.shape)) {
    return binary(op, self, src, out, {"b", "b"}, out.dtype == DType::boolean ? Gives::bits : Gives::numbers);
  }
  TRY(op.set_shape(out, self.shape));
  return convert(op, src, out);
}

constexpr Op kConvertOps[] = {
    op<to_copy>("aten._to_copy.default", "self, dtype, layout, device, pin_memory, non_blocking, memory_format -> out",
                "all pairs of types; a view where the type stays"),
    op<to_copy>("dim_order_ops._to_dim_order_copy.default",
                "self, dtype, layout, device, pin_memory, non_blocking, dim_order -> out", "as _to_copy; contiguous"),
    op<copy>("aten.copy.default", "self, src, non_blocking -> out", "src broadcasts"),
};

}  // namespace

const Family kConvert{"convert", kConvertOps};

}  // namespace nibble::ops
