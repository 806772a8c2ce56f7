// Tensors made from numbers alone: all elements equal, or in equal steps.
#include <cmath>

#include "ops/families.hpp"
#include "ops/move/move.hpp"

namespace nibble::ops {
namespace {

/// What rounds to no finite float16 is infinite: WGSL leaves open how it packs such a number.
float as_float(double value, DType dtype) {
  const bool is_endless = dtype == DType::f16 && std::abs(value) >= 65520;
  return is_endless ? std::copysign(HUGE_VALF, static_cast<float>(value)) : static_cast<float>(value);
}

Result<std::int32_t> as_int(const Lowering& op, const Number& number, DType dtype) {
  const double whole = std::trunc(number.value);
  const double most = dtype == DType::i32 ? 2147483647 : dtype == DType::i8 ? 127 : 255;
  const bool fits = whole >= (dtype == DType::u8 ? 0 : -most - 1) && whole <= most;  // a NaN does not
  if (!fits) return op.fail("cannot make {} of {}", dtype, number.value);
  return static_cast<std::int32_t>(whole);
}

Status fill_size(Lowering& op, const LiveInts& size, Out& out, const Number& value) {
  Shape shape;
  for (std::size_t i = 0; i < size.size(); ++i) {
    if (size[i] < 0) return op.fail("size[{}] is {}, but it must not be negative", i, size[i]);
    if (!shape.push_back(size[i])) return op.fail("size has {} entries, more than {}", size.size(), Shape::kMaxRank);
  }
  TRY(op.set_shape(out, shape));
  return fill(op, out, value);
}

}  // namespace

Status fill(Lowering& op, const Out& out, const Number& start, const Number& step) {
  wgsl::FillParams params{.quads = quads_of(out.shape)};
  if (is_float(out.dtype)) {
    params.start = as_float(start.value, out.dtype);
    params.step = as_float(step.value, out.dtype);
  } else if (size_of(out.dtype) > 4) {
    return op.fail("the output is {}, which is not computed with", out.dtype);
  } else if (out.dtype == DType::boolean) {
    params.start_int = start.value != 0 ? 1 : 0;
  } else {
    TRY_ASSIGN(params.start_int, as_int(op, start, out.dtype));
    TRY_ASSIGN(params.step_int, as_int(op, step, DType::i32));
  }
  return op.dispatch_quads(wgsl::fill, {op.write("result", out)}, params,
                           {{"value", is_float(out.dtype) ? wgsl::fill_floats : wgsl::fill_ints}});
}

namespace {

Status full(Lowering& op, const LiveInts& size, const Number& value, Ignored, Ignored, Ignored, Ignored, Out& out) {
  return fill_size(op, size, out, value);
}

Status full_like(Lowering& op, const Tensor& self, const Number& value, Ignored, Ignored, Ignored, Ignored, Ignored,
                 Out& out) {
  TRY(op.set_shape(out, self.shape));
  return fill(op, out, value);
}

template <int number>
Status all(Lowering& op, const LiveInts& size, Ignored, Ignored, Ignored, Ignored, Out& out) {
  return fill_size(op, size, out, {number, true, number});
}

template <int number>
Status all_like(Lowering& op, const Tensor& self, Ignored, Ignored, Ignored, Ignored, Ignored, Out& out) {
  TRY(op.set_shape(out, self.shape));
  return fill(op, out, {number, true, number});
}

Status scalar_tensor(Lowering& op, const Number& value, Ignored, Ignored, Ignored, Ignored, Out& out) {
  TRY(op.set_shape(out, {}));
  return fill(op, out, value);
}

Status arange(Lowering& op, const Number& start, const Number& end, const Number& step, Ignored, Ignored, Ignored,
              Ignored, Out& out) {
  if (!is_float(out.dtype) && !(start.is_integer && step.is_integer)) {
    return op.fail("the output is {}, but start is {} and step is {}", out.dtype, start.value, step.value);
  }
  const double count = std::ceil((end.value - start.value) / step.value);
  const bool can_count = step.value != 0 && count >= 0 && count <= 4294967295.0;  // not where any is NaN
  if (!can_count) return op.fail("cannot go from {} to {} in steps of {}", start.value, end.value, step.value);
  TRY(op.set_shape(out, {static_cast<std::int64_t>(count)}));
  return fill(op, out, start, step);
}

constexpr std::string_view kSize = "size, dtype, layout, device, pin_memory -> out";
constexpr std::string_view kLike = "self, dtype, layout, device, pin_memory, memory_format -> out";
constexpr Note kSymInts = "sizes may be SymInts";

constexpr Op kFillOps[] = {
    op<full>("aten.full.default", "size, fill_value, dtype, layout, device, pin_memory -> out", kSymInts),
    op<full_like>("aten.full_like.default",
                  "self, fill_value, dtype, layout, device, pin_memory, memory_format -> out"),
    op<all<0>>("aten.zeros.default", kSize, kSymInts),
    op<all_like<0>>("aten.zeros_like.default", kLike),
    op<all<1>>("aten.ones.default", kSize, kSymInts),
    op<all_like<1>>("aten.ones_like.default", kLike),
    op<scalar_tensor>("aten.scalar_tensor.default", "s, dtype, layout, device, pin_memory -> out"),
    op<arange>("aten.arange.start_step", "start, end, step, dtype, layout, device, pin_memory -> out",
               "bounds may be SymInts"),
};

}  // namespace

const Family kFill{"fill", kFillOps};

}  // namespace nibble::ops
