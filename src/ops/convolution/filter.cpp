#include "ops/convolution/filter.hpp"

#include <algorithm>

#include "ops/product/product.hpp"

namespace nibble::ops {
namespace {

constexpr std::int64_t kMost = 0x7fffffff;

/// The entry of a list for each dimension, or one for all.
Result<std::int64_t> entry(const Lowering& op, const Ints& list, std::size_t i, std::size_t count, std::int64_t least,
                           std::string_view arg) {
  if (list.size() != count && list.size() != 1) {
    return op.fail("{} has {} entries, but there are {} dimensions", arg, list.size(), count);
  }
  const auto value = list[list.size() == 1 ? 0 : i];
  if (value < least || value > kMost)
    return op.fail("{} is {}, but it must be from {} to {}", arg, value, least, kMost);
  return value;
}

Result<Axis> read_axis(const Lowering& op, std::int64_t source, std::int64_t kernel, const Moves& moves, std::size_t i,
                       std::size_t count) {
  Axis axis{.source = source, .kernel = kernel, .is_transposed = moves.is_transposed};
  TRY_ASSIGN(axis.stride, entry(op, moves.stride, i, count, 1, "stride"));
  TRY_ASSIGN(axis.padding, entry(op, moves.padding, i, count, 0, "padding"));
  TRY_ASSIGN(axis.dilation, entry(op, moves.dilation, i, count, 1, "dilation"));
  if (moves.is_transposed) {
    TRY_ASSIGN(axis.extra, entry(op, moves.output_padding, i, count, 0, "output_padding"));
  }
  if (source > kMost || kernel < 1 || kernel > kMost / axis.dilation) {
    return op.fail("dimension {} has {} entries, a filter of {} and dilation {}, more than 32 bits can count", 2 + i,
                   source, kernel, axis.dilation);
  }
  if (moves.is_transposed ? axis.result() < 0 : source != 0 && source + 2 * axis.padding <= axis.reach()) {
    return op.fail("dimension {} of the input has {} entries and a padding of {}, but the filter covers {}", 2 + i,
                   source, axis.padding, axis.reach() + 1);
  }
  return axis;
}

}  // namespace

Result<Filter> read_filter(const Lowering& op, const Tensor& input, const Shape& kernel, const Moves& moves) {
  Filter f{.groups = moves.groups, .low = moves.low, .high = moves.high};
  const auto count = kernel.rank();
  if (input.rank() != count + 2 || count < 1 || count > 2) {
    return op.fail("input has shape {}, but it must have 3 or 4 dimensions, two more than the filter's {}", input.shape,
                   count);
  }
  if (f.groups < 1 || f.groups > std::max<std::int64_t>(1, input.shape[1]) || input.shape[1] % f.groups != 0) {
    return op.fail("groups is {}, which does not divide the input's {} channels", f.groups, input.shape[1]);
  }
  f.channels = input.shape[1] / f.groups;
  for (std::size_t i = 0; i < count; ++i) {
    TRY_ASSIGN(f.axes[2 - count + i], read_axis(op, input.shape[2 + i], kernel[i], moves, i, count));
  }
  return f;
}

Status set_result(Lowering& op, const Tensor& input, const Filter& f, const std::optional<Float<Tensor>>& bias,
                  Out& out) {
  if (bias && bias->numel() < f.columns) {
    return op.fail("bias has shape {}, but there are {} output channels", bias->shape, f.columns);
  }
  Shape shape = input.shape;
  shape[1] = f.columns;
  for (std::size_t i = 2; i < shape.rank(); ++i) shape[i] = f.axes[i + 2 - shape.rank()].result();
  return op.set_shape(out, shape);
}

Result<wgsl::PixelsParams> lay_out(Lowering& op, const Tensor& input, const Filter& f, float fill, Size before,
                                   Size most_before) {
  Filter most = f;
  for (std::size_t i = 0; i < 2; ++i) {
    if (i + input.rank() >= 4) most.axes[i].source = op.bound(input)[i + input.rank() - 2];
  }
  const auto elements = [](const Filter& a, std::int64_t batch) {
    return Size::of(Shape{batch, a.groups, a.axes[0].touched(), a.axes[1].touched(), a.padded_channels()});
  };
  const auto count = elements(f, input.shape[0]);
  TRY(narrow(op, before + count, "the input with its padding"));
  TRY(op.scratch(most_before + elements(most, op.bound(input)[0]) * size_of(input.dtype)));
  const auto step = [](const Axis& a) { return a.kernel == 1 ? a.step() : 1; };
  const wgsl::PixelsParams params{.quads = narrow(count.unchecked() / 4),
                                  .width = narrow(f.axes[1].touched()),
                                  .height = narrow(f.axes[0].touched()),
                                  .channels = narrow(f.channels),
                                  .channel_quads = narrow(f.padded_channels() / 4),
                                  .source = xy<std::int32_t>(f, &Axis::source),
                                  .padding = xy<std::int32_t>(f, &Axis::border),
                                  .step = xy<std::int32_t>(f, step),
                                  .spread = xy<std::int32_t>(f, &Axis::spread),
                                  .first = narrow(before.unchecked() / (4 * size_of(input.dtype))),
                                  .fill = fill};
  TRY(op.dispatch_quads(wgsl::pixels, {op.read("source", input), Scratch::write("result", elem_of(input.dtype))},
                        params, {{"type", is_float(input.dtype) ? wgsl::floats : wgsl::ints}}));
  return params;
}

}  // namespace nibble::ops
