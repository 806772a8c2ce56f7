// Tensors made from numbers alone: all elements equal, or in equal steps.
#include <cmath>

#include "ops/elementwise.hpp"
#include "ops/ops.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

constexpr Number kZero{0, true, 0};
constexpr Number kOne{1, true, 1};

/// What rounds to no finite float16 is infinite: WGSL leaves open how it packs such a number.
float as_float(double value, DType dtype) {
  const bool is_endless = dtype == DType::f16 && std::abs(value) >= 65520;
  return is_endless ? std::copysign(HUGE_VALF, static_cast<float>(value)) : static_cast<float>(value);
}

Result<std::int32_t> as_int(const OpContext& op, const Number& number) {
  const double whole = std::trunc(number.value);
  const bool fits = whole >= -2147483648.0 && whole <= 2147483647.0;  // a NaN does not
  if (!fits) {
    return op.fail("cannot make an int32 of {}", number.value);
  }
  return static_cast<std::int32_t>(whole);
}

Status fill_size(OpContext& op, const Ints& size, Out& out, const Number& value) {
  Shape shape;
  for (std::size_t i = 0; i < size.size(); ++i) {
    if (size[i] < 0) return op.fail("size[{}] is {}, but it must not be negative", i, size[i]);
    if (!shape.push_back(size[i])) return op.fail("size has {} entries, more than {}", size.size(), Shape::kMaxRank);
  }
  TRY(op.set_shape(out, shape));
  return fill(op, out, value);
}

Status fill_size(OpContext& op, const Number& value) {
  TRY_BIND((size, dtype, layout, device, pin_memory, out),
           op.args<Ints, Ignored, Ignored, Ignored, Ignored, Out>(
               {"size", "dtype", "layout", "device", "pin_memory", "out"}));
  return fill_size(op, size, out, value);
}

Status fill_like(OpContext& op, const Number& value) {
  TRY_BIND((self, dtype, layout, device, pin_memory, memory_format, out),
           op.args<Tensor, Ignored, Ignored, Ignored, Ignored, Ignored, Out>(
               {"self", "dtype", "layout", "device", "pin_memory", "memory_format", "out"}));
  TRY(op.set_shape(out, self.shape));
  return fill(op, out, value);
}

}  // namespace

Status fill(OpContext& op, const Out& out, const Number& start, const Number& step) {
  struct Params {
    std::uint32_t quads;
    float start;
    float step;
    std::int32_t start_int;
    std::int32_t step_int;
  };
  Params params{};
  params.quads = static_cast<std::uint32_t>(Size::of(out.shape).div_up(4).unchecked());
  if (is_float(out.dtype)) {
    params.start = as_float(start.value, out.dtype);
    params.step = as_float(step.value, out.dtype);
  } else if (out.dtype == DType::i32) {
    TRY_ASSIGN(params.start_int, as_int(op, start));
    TRY_ASSIGN(params.step_int, as_int(op, step));
  } else if (out.dtype == DType::boolean) {
    params.start_int = start.value != 0 ? 1 : 0;
  } else {
    return op.fail("the output must be float32, float16, int32 or bool, but it is {}", out.dtype);
  }
  return op.dispatch({.shader = wgsl::fill,
                      .bind = {op.write("result", out)},
                      .params = params_of(params),
                      .threads = params.quads,
                      .lines = {is_float(out.dtype) ? "fn value(i: vec4<u32>) -> vec4<f32> { return params.start + "
                                                      "params.step * vec4<f32>(i); }"
                                                    : "fn value(i: vec4<u32>) -> vec4<i32> { return params.start_int + "
                                                      "params.step_int * vec4<i32>(i); }"}});
}

Status full(OpContext& op) {
  TRY_BIND((size, value, dtype, layout, device, pin_memory, out),
           op.args<Ints, Number, Ignored, Ignored, Ignored, Ignored, Out>(
               {"size", "fill_value", "dtype", "layout", "device", "pin_memory", "out"}));
  return fill_size(op, size, out, value);
}

Status full_like(OpContext& op) {
  TRY_BIND((self, value, dtype, layout, device, pin_memory, memory_format, out),
           op.args<Tensor, Number, Ignored, Ignored, Ignored, Ignored, Ignored, Out>(
               {"self", "fill_value", "dtype", "layout", "device", "pin_memory", "memory_format", "out"}));
  TRY(op.set_shape(out, self.shape));
  return fill(op, out, value);
}

Status scalar_tensor(OpContext& op) {
  TRY_BIND((value, dtype, layout, device, pin_memory, out),
           op.args<Number, Ignored, Ignored, Ignored, Ignored, Out>(
               {"s", "dtype", "layout", "device", "pin_memory", "out"}));
  TRY(op.set_shape(out, {}));
  return fill(op, out, value);
}

Status zeros(OpContext& op) { return fill_size(op, kZero); }
Status ones(OpContext& op) { return fill_size(op, kOne); }
Status zeros_like(OpContext& op) { return fill_like(op, kZero); }
Status ones_like(OpContext& op) { return fill_like(op, kOne); }

Status arange(OpContext& op) {
  TRY_BIND((start, end, step, dtype, layout, device, pin_memory, out),
           op.args<Number, Number, Number, Ignored, Ignored, Ignored, Ignored, Out>(
               {"start", "end", "step", "dtype", "layout", "device", "pin_memory", "out"}));
  if (out.dtype == DType::i32 && !(start.is_integer && step.is_integer)) {
    return op.fail("the output is int32, but start is {} and step is {}", start.value, step.value);
  }
  const double count = std::ceil((end.value - start.value) / step.value);
  const bool can_count = step.value != 0 && count >= 0 && count <= 4294967295.0;  // not where any is NaN
  if (!can_count) {
    return op.fail("cannot go from {} to {} in steps of {}", start.value, end.value, step.value);
  }
  TRY(op.set_shape(out, {static_cast<std::int64_t>(count)}));
  return fill(op, out, start, step);
}

}  // namespace nibble::ops
