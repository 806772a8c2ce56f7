// Convolutions of bytes, with a scale for each output channel's weights: exact products of pixels with filters.
#include "ops/convolution/filter.hpp"
#include "ops/families.hpp"
#include "ops/product/product.hpp"
#include "ops/quantized/affine.hpp"

namespace nibble::ops {
namespace {

constexpr std::uint32_t kRows = 1;   // filters are rows of the weight, and each sees several channels
constexpr std::uint32_t kWhole = 1;  // the pixels of a channel are whole words

constexpr Variant kBytesVariants[] = {
    Variant("registers", {.traits = kRows}, {Adapters::cpu}, {4, 4, 8}, &wgsl::product_i8,
            "a weight is unpacked once for 4 pixels, with no barrier"),
    Variant("threads", {.traits = kRows}, {}, {4, 4, 64}, &wgsl::product_i8, "a thread for 4 pixels of 4 channels"),
    Variant("each", {}, {}, {}, &wgsl::convolution_i8, "four neighbours of the result, by any filter"),
};
const Choice kConvolveBytes{"convolution_i8", kBytesVariants, 1e-6F};

constexpr Variant kStores[] = {
    Variant("bytes", {.traits = kWhole}, {}, {}, {}, "four neighbours are one word"),
    Variant("floats", {}, {}, {}, {}, "channels share words: results are rounded afterwards"),
};
const Choice kStoreBytes{"convolution_i8_store", kStores, 1e-6F};

/// The filters multiply the pixels, once these have their channels together.
Status multiply_pixels(Lowering& op, const Tensor& input, const Tensor& weights, const Tensor& scales,
                       const std::optional<Float<Tensor>>& bias, const Filter& f, const Variant& v,
                       wgsl::ProductI8Params params, const Out& out) {
  const auto& [y, x] = f.axes;
  const auto channels = narrow(f.padded_channels());
  // Taps side by side are one run of bytes, in the pixels and in the weight.
  const bool joins = x.dilation == 1 && !x.is_transposed && f.channels % 4 == 0;
  const auto pixels = narrow(f.pixels());
  const bool is_direct =
      &op.choose(kStoreBytes, Facts{}.trait(kWhole, pixels % 4 == 0, op.varies({&input}))) == kStores;
  const auto floats = [&](const Shape& s) { return is_direct ? Size(0) : Size::bytes(s, DType::f32).align_up(16); };
  TRY_ASSIGN(const auto laid,
             lay_out(op, input, f, static_cast<float>(params.zero), floats(out.shape), floats(op.bound(out))));
  const auto row = laid.width * channels;
  const auto tap = [](const Axis& a, std::uint32_t n) {
    return narrow(a.is_transposed ? -a.dilation : a.dilation) * n;
  };
  const bool in_vectors = is_direct && f.channels % 16 == 0 && weights.shape[1] % 16 == 0;
  const auto elem = in_vectors ? Elem::words4 : Elem::words;
  params.rows = pixels;
  params.runs = narrow(joins ? y.kernel : f.taps());
  params.depth = narrow(joins ? x.kernel * f.channels : f.channels);
  params.width = narrow(f.columns / f.groups);
  params.x_pitch = laid.height * row;
  params.weight_pitch = narrow(weights.shape[1]);
  params.groups = narrow(f.groups);
  // The taps of a transposed filter are turned round.
  params.pixel_first = 4 * laid.first + (x.is_transposed ? narrow(y.reach()) * row + narrow(x.reach()) * channels : 0);
  params.pixel_width = narrow(x.result());
  params.pixel_row = row * narrow(y.kernel == 1 ? 1 : y.step());
  params.pixel_column = channels * narrow(x.kernel == 1 ? 1 : x.step());
  params.tap_width = joins ? 1 : narrow(x.kernel);
  params.tap_row = tap(y, row);
  params.tap_column = tap(x, channels);
  params.column_tiles = (params.width + 3) / 4;
  params.tiles = (pixels + 3) / 4 * params.column_tiles * narrow(input.shape[0] * f.groups);
  Kernel kernel{.shader = *v.shader,
                .bind = {is_direct ? Scratch::read("x", elem) : Scratch::write("x", elem),
                         op.read("weight", weights).raw(elem), op.read("scales", scales)},
                .params = params,
                .threads = params.tiles,
                .workgroup = v.tile.threads,
                .work = (Size::of(out.shape) * params.runs * params.depth).div_up(4),
                .whole_groups = true,
                .overrides = {{"TILE_ROWS", static_cast<double>(v.tile.rows)}},
                .slots = {{"x", wgsl::x_of_pixels},
                          {"dots", choose_dots(op)},
                          {"bytes", in_vectors ? wgsl::bytes_in_vectors : wgsl::bytes_anywhere},
                          {"bias", bias ? wgsl::bias_of_columns : wgsl::bias_of_none},
                          {"store", is_direct ? wgsl::store_rounded : wgsl::store_beside_pixels}}};
  if (bias) kernel.bind.push_back(op.read("addend", *bias));
  if (is_direct) kernel.bind.push_back(op.write("result", out));
  TRY(op.dispatch(kernel));
  if (is_direct) return {};
  return change_all(op, {Scratch::read("source", Elem::f32), op.write("result", out)},
                    fixed_params(1, params.result_zero, params.inverse), out.shape, wgsl::quantize);
}

Status convolve_bytes(Lowering& op, const Tensor& x, const Number& in_scale, const Number& in_zero,
                      const Tensor& weights, Ignored, const Float<Tensor>& scales, const Number& scale,
                      const Number& zero, const std::optional<Float<Tensor>>& bias, const Ints& kernel_size,
                      const Ints& stride, const Ints& padding, const std::optional<Ints>& output_padding,
                      const Ints& dilation, std::int64_t groups, std::string_view activation, Out& out) {
  if (x.dtype != DType::i8 || weights.dtype != DType::i8 || out.dtype != DType::i8) {
    return op.fail("x, weights and the output must be int8, but they are {}, {} and {}", x.dtype, weights.dtype,
                   out.dtype);
  }
  TRY(check_zero(op, in_zero));
  TRY(check_activation(op, activation));
  Shape kernel;
  for (std::size_t i = 0; i < kernel_size.size(); ++i) kernel.push_back(kernel_size[i]);
  const bool is_transposed = output_padding.has_value();
  TRY_ASSIGN(auto f, read_filter(op, x, kernel,
                                 {stride, padding, dilation, is_transposed, output_padding.value_or(Ints()), groups}));
  // [kernel rows, kernel columns, channels], or [columns, (rows, columns, channels) and perhaps more].
  const bool sees_one_channel = weights.rank() == 3;
  const auto depth = f.taps() * f.channels;
  f.columns = sees_one_channel ? weights.shape[2] : weights.rank() == 2 ? weights.shape[0] : 0;
  // Kernels are planned for as many channels as the program has.
  if (f.columns % groups != 0 || x.shape[1] != op.bound(x)[1] ||
      (sees_one_channel ? weights.shape[0] * weights.shape[1] != f.taps() || f.channels != 1
                        : weights.rank() != 2 || weights.shape[1] < depth)) {
    return op.fail("weights has shape {}, which does not fit an input of shape {} in {} groups", weights.shape, x.shape,
                   groups);
  }
  if (scales.numel() < f.columns) {
    return op.fail("weight_scales has shape {}, but there are {} output channels", scales.shape, f.columns);
  }
  // 255 * 128 * depth is below 2^31.
  if (depth > 65536) return op.fail("a filter has {} weights, but it may have 65536 at most", depth);
  TRY(set_result(op, x, f, bias, out));
  const wgsl::ProductI8Params numbers{.zero = static_cast<std::int32_t>(in_zero.integer),
                                      .scale = in_scale.to_float(),
                                      .lowest = activation == "relu" ? 0 : std::numeric_limits<float>::lowest(),
                                      .inverse = static_cast<float>(1 / scale.value),
                                      .result_zero = zero.to_float()};
  const bool has_rows = !sees_one_channel && f.channels >= (groups == 1 ? 2 : 4);
  const auto& v = op.choose(kConvolveBytes, Facts{.rows = op.count(out)}.trait(kRows, has_rows, false));
  if (v.shader == &wgsl::product_i8) return multiply_pixels(op, x, weights, scales, bias, f, v, numbers, out);
  TRY(check_rounds(op, f.axes[0].kernel + f.taps() + depth));
  const auto tap = [](const Axis& a) { return a.is_transposed ? -a.dilation : a.dilation; };
  const auto shift = [](const Axis& a) { return a.is_transposed ? a.padding : -a.padding; };
  const wgsl::ConvolutionI8Params params{.quads = quads_of(out.shape),
                                         .channels = narrow(f.channels),
                                         .groups = narrow(groups),
                                         .columns = narrow(f.columns),
                                         .size = xy<std::uint32_t>(f, &Axis::result),
                                         .source = xy<std::int32_t>(f, &Axis::source),
                                         .kernel = xy<std::uint32_t>(f, &Axis::kernel),
                                         .step = xy<std::int32_t>(f, &Axis::step),
                                         .tap = xy<std::int32_t>(f, tap),
                                         .shift = xy<std::int32_t>(f, shift),
                                         .spread = xy<std::int32_t>(f, &Axis::spread),
                                         .column_stride = narrow(sees_one_channel ? 1 : weights.shape[1]),
                                         .tap_stride = narrow(sees_one_channel ? f.columns : f.channels),
                                         .zero = numbers.zero,
                                         .scale = numbers.scale,
                                         .lowest = numbers.lowest,
                                         .inverse = numbers.inverse,
                                         .result_zero = numbers.result_zero};
  Kernel all{.shader = wgsl::convolution_i8,
             .bind = {op.read("x", x), op.read("weight", weights), op.read("scales", scales), op.write("result", out)},
             .params = params,
             .threads = params.quads,
             .work = Size(params.quads) * Size::from_signed(depth),
             .slots = {{"bias", bias ? wgsl::depthwise_bias : wgsl::depthwise_no_bias}}};
  if (bias) all.bind.push_back(op.read("bias", *bias));
  return op.dispatch(all);
}

Status plain(Lowering& op, const Tensor& x, const Number& in_scale, const Number& in_zero, const Tensor& weights,
             Ignored sums, const Float<Tensor>& scales, const Number& scale, const Number& zero,
             const std::optional<Float<Tensor>>& bias, const Ints& kernel_size, const Ints& stride, const Ints& padding,
             const Ints& dilation, std::int64_t groups, std::string_view activation, Out& out) {
  return convolve_bytes(op, x, in_scale, in_zero, weights, sums, scales, scale, zero, bias, kernel_size, stride,
                        padding, {}, dilation, groups, activation, out);
}

constexpr std::string_view kNames =
    "x, input_scale, input_zero_point, weights, weight_sums, weight_scales, output_scale, output_zero_point, bias, "
    "kernel_size, stride, padding, dilation, groups, activation -> out";
constexpr Note kNote = "exact; any stride, padding, dilation and groups";

constexpr Op kConvolutionI8Ops[] = {
    open<plain>("et_vk.q8ta_conv2d.default", kNames, kNote),
    open<plain>("et_vk.q8ta_conv2d_pw.default", kNames, kNote),
    open<plain>("et_vk.q8ta_conv2d_dw.default", kNames, kNote),
    open<convolve_bytes>(
        "et_vk.q8ta_conv2d_transposed.default",
        "x, input_scale, input_zero_point, weights, weight_sums, weight_scales, output_scale, output_zero_point, bias, "
        "kernel_size, stride, padding, output_padding, dilation, groups, activation -> out",
        kNote),
};

}  // namespace

const Family kConvolutionI8{"convolution_i8", kConvolutionI8Ops, {&kConvolveBytes, &kStoreBytes, &kDots}};

}  // namespace nibble::ops
