// Changing the element type. float → int truncates towards zero; anything but zero is true,
// NaN too: shaders may take it for any number, so it is compared by what it cannot equal.
#include "ops/checks.hpp"
#include "ops/ops.hpp"
#include "plan/copy.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
Status convert(OpContext& op, const Tensor& in, const Out& out) {
  if (op.is_alias(in, out)) return {};
  const auto from = op.read("source", in);
  const auto to = op.write("result", out);
  if (in.dtype == out.dtype) {
    return copy_words(op, from.buffer, to.buffer, Size::bytes(in.shape, in.dtype).unchecked());
  }
  struct Params {
    std::uint32_t quads;
  };
  const auto quads = static_cast<std::uint32_t>(Size::of(out.shape).div_up(4).unchecked());
  const std::string_view change =
      out.dtype == DType::boolean ? (is_float(in.dtype) ? "fn change(v: vec4<f32>) -> vec4<i32> { return "
                                                          "select(vec4<i32>(1), vec4<i32>(0), v == vec4<f32>(0.0)); }"
                                                        : "fn change(v: vec4<i32>) -> vec4<i32> { return "
                                                          "select(vec4<i32>(0), vec4<i32>(1), v != vec4<i32>(0)); }")
      : is_float(in.dtype)        ? (is_float(out.dtype) ? "fn change(v: vec4<f32>) -> vec4<f32> { return v; }"
                                                         : "fn change(v: vec4<f32>) -> vec4<i32> { return vec4<i32>(v); }")
                           : (is_float(out.dtype) ? "fn change(v: vec4<i32>) -> vec4<f32> { return vec4<f32>(v); }"
                                                  : "fn change(v: vec4<i32>) -> vec4<i32> { return v; }");
  return op.dispatch({.shader = wgsl::convert,
                      .bind = {from, to},
                      .params = params_of(Params{quads}),
                      .threads = quads,
                      .lines = {change}});
}

Status to_copy(OpContext& op) {
  TRY_BIND((self, dtype, layout, device, pin_memory, non_blocking, memory_format, out),
           op.args<Tensor, Ignored, Ignored, Ignored, Ignored, Ignored, Ignored, Out>(
               {"self", "dtype", "layout", "device", "pin_memory", "non_blocking", "memory_format", "out"}));
  TRY(op.set_shape(out, self.shape));
  return convert(op, self, out);
}

Status to_dim_order_copy(OpContext& op) {
  // The same arguments, with a dim order in place of a memory format.
  return to_copy(op);
}

}  // namespace nibble::ops
