// Convolutions of bytes, with a scale for each output channel's weights.
#include "ops/convolution/filter.hpp"
#include "ops/families.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

Status transposed(Lowering& op, const Tensor& x, const Number& in_scale, std::int64_t in_zero, const Tensor& weights,
                  Ignored, const Float<Tensor>& scales, const Number& scale, const Number& zero,
                  const std::optional<Float<Tensor>>& bias, const Ints& kernel_size, const Ints& stride,
                  const Ints& padding, const std::optional<Ints>& output_padding, const Ints& dilation,
                  std::int64_t groups, std::string_view activation, Out& out) {
  if (x.dtype != DType::i8 || weights.dtype != DType::i8 || out.dtype != DType::i8) {
    return op.fail("x, weights and the output must be int8, but they are {}, {} and {}", x.dtype, weights.dtype,
                   out.dtype);
  }
  if (activation != "none" && activation != "relu") {
    return op.fail("activation must be none or relu, but it is {}", activation);
  }
  Shape kernel;
  for (std::size_t i = 0; i < kernel_size.size(); ++i) kernel.push_back(kernel_size[i]);
  const Ints none;
  TRY_ASSIGN(auto f, read_filter(op, x, kernel,
                                 {stride, padding, dilation, output_padding.has_value(),
                                  output_padding ? *output_padding : none, groups}));
  // [kernel rows, kernel columns, channels], or [columns, (rows, columns, channels) and perhaps more].
  const bool sees_one_channel = weights.rank() == 3;
  const auto depth = f.taps() * f.channels;
  f.columns = sees_one_channel ? weights.shape[2] : weights.rank() == 2 ? weights.shape[0] : 0;
  if (f.columns % groups != 0 || (sees_one_channel ? weights.shape[0] * weights.shape[1] != f.taps() || f.channels != 1
                                                   : weights.rank() != 2 || weights.shape[1] < depth)) {
    return op.fail("weights has shape {}, which does not fit an input of shape {} in {} groups", weights.shape, x.shape,
                   groups);
  }
  if (scales.numel() < f.columns) {
    return op.fail("weight_scales has shape {}, but there are {} output channels", scales.shape, f.columns);
  }
  // 255 * 128 * depth is below 2^31.
  const std::int64_t most = op.profile().kind == AdapterKind::cpu ? DeviceProfile::kMaxRounds : 65536;
  if (depth > most) return op.fail("a filter has {} weights, but on this device it may have {} at most", depth, most);
  TRY(set_result(op, x, f, bias, out));
  const auto& [rows, columns] = f.axes;
  const auto as_i32 = [](std::int64_t v) { return static_cast<std::int32_t>(v); };
  const auto tap = [&](const Axis& a) { return as_i32(a.is_transposed ? -a.dilation : a.dilation); };
  const auto shift = [&](const Axis& a) { return as_i32(a.is_transposed ? a.padding : -a.padding); };
  const wgsl::ConvolutionI8Params params{.quads = quads_of(out.shape),
                                         .channels = narrow(f.channels),
                                         .groups = narrow(groups),
                                         .columns = narrow(f.columns),
                                         .width = narrow(columns.result()),
                                         .height = narrow(rows.result()),
                                         .source_width = narrow(columns.source),
                                         .source_height = narrow(rows.source),
                                         .kernel_x = narrow(columns.kernel),
                                         .kernel_y = narrow(rows.kernel),
                                         .step_x = as_i32(columns.step()),
                                         .step_y = as_i32(rows.step()),
                                         .tap_x = tap(columns),
                                         .tap_y = tap(rows),
                                         .shift_x = shift(columns),
                                         .shift_y = shift(rows),
                                         .spread_x = as_i32(columns.spread()),
                                         .spread_y = as_i32(rows.spread()),
                                         .column_stride = narrow(sees_one_channel ? 1 : weights.shape[1]),
                                         .tap_stride = narrow(sees_one_channel ? f.columns : f.channels),
                                         .channel_stride = 1,
                                         .zero = as_i32(in_zero),
                                         .scale = static_cast<float>(in_scale.value),
                                         .lowest = activation == "relu" ? 0 : std::numeric_limits<float>::lowest(),
                                         .inverse = static_cast<float>(1 / scale.value),
                                         .result_zero = static_cast<float>(zero.value)};
  Kernel all{.shader = wgsl::convolution_i8,
             .bind = {op.read("x", x), op.read("weight", weights), op.read("scales", scales), op.write("result", out)},
             .params = params,
             .threads = params.quads,
             .slots = {{"bias", bias ? wgsl::depthwise_bias : wgsl::depthwise_no_bias}}};
  if (bias) all.bind.push_back(op.read("bias", *bias));
  return op.dispatch(all);
}

Status plain(Lowering& op, const Tensor& x, const Number& in_scale, std::int64_t in_zero, const Tensor& weights,
             Ignored sums, const Float<Tensor>& scales, const Number& scale, const Number& zero,
             const std::optional<Float<Tensor>>& bias, const Ints& kernel_size, const Ints& stride, const Ints& padding,
             const Ints& dilation, std::int64_t groups, std::string_view activation, Out& out) {
  return transposed(op, x, in_scale, in_zero, weights, sums, scales, scale, zero, bias, kernel_size, stride, padding,
                    {}, dilation, groups, activation, out);
}

constexpr std::string_view kNames =
    "x, input_scale, input_zero_point, weights, weight_sums, weight_scales, output_scale, output_zero_point, bias, "
    "kernel_size, stride, padding, dilation, groups, activation -> out";
constexpr Note kNote = "exact; any stride, padding, dilation and groups";

constexpr Op kConvolutionI8Ops[] = {
    open<plain>("et_vk.q8ta_conv2d.default", kNames, kNote),
    open<plain>("et_vk.q8ta_conv2d_pw.default", kNames, kNote),
    open<plain>("et_vk.q8ta_conv2d_dw.default", kNames, kNote),
    open<transposed>("et_vk.q8ta_conv2d_transposed.default",
                     "x, input_scale, input_zero_point, weights, weight_sums, weight_scales, output_scale, "
                     "output_zero_point, bias, kernel_size, stride, padding, output_padding, dilation, groups, "
                     "activation -> out",
                     kNote),
};

}  // namespace

const Family kConvolutionI8{"convolution_i8", kConvolutionI8Ops};

}  // namespace nibble::ops
