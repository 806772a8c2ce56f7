// Convolutions: products of filters with pixels. A filter of one pixel multiplies the picture as it lies; for others
// its pixels are laid out with their channels together (pixels.wgsl), which costs little beside the product. Filters
// that see one channel have kernels of their own.
#include "ops/convolution/filter.hpp"
#include "ops/families.hpp"
#include "ops/product/product.hpp"

namespace nibble::ops {
namespace {

constexpr std::uint32_t kSharedWords = 1;  // packed results whose rows are no whole quads
constexpr std::uint32_t kSlides = 2;       // depthwise_slide has the filter
constexpr std::uint32_t kShares = 4;       // and its threads have a vec4 of each row of the input

constexpr Variant kDepthwiseVariants[] = {
    Variant("shared_slide", {.traits = kSlides | kShares, .none_of = kSharedWords, .subgroups = true}, {Adapters::gpu},
            {}, &wgsl::depthwise_slide, "as slide, with one load of a vec4, which neighbours share"),
    Variant("slide", {.traits = kSlides, .none_of = kSharedWords}, {}, {}, &wgsl::depthwise_slide,
            "each thread loads a row of the input once"),
    Variant("row", {.none_of = kSharedWords}, {}, {}, &wgsl::depthwise_row, "a weight is loaded once for 4 results"),
    Variant("flat", {}, {}, {}, &wgsl::depthwise_flat, "four neighbours of the result, whatever rows they belong to"),
};
constexpr Choice kDepthwise{"depthwise", kDepthwiseVariants};

/// What depthwise_slide has for a filter: none for most.
const Shader* slide_of(const Filter& f) {
  const auto& [y, x] = f.axes;
  if (y.kernel != x.kernel || y.stride != x.stride || y.dilation != 1 || x.dilation != 1) return nullptr;
  if (x.stride > 2) return nullptr;
  if (x.kernel == 3) return x.stride == 1 ? &wgsl::depthwise_3_by_1 : &wgsl::depthwise_3_by_2;
  if (x.kernel == 5) return x.stride == 1 ? &wgsl::depthwise_5_by_1 : &wgsl::depthwise_5_by_2;
  return nullptr;
}

Status convolve_channels(Lowering& op, const Tensor& input, const Tensor& weight,
                         const std::optional<Float<Tensor>>& bias, const Filter& f, const Out& out) {
  const auto& [y, x] = f.axes;
  const auto width = x.result();
  const bool is_whole = width % 4 == 0;
  Facts facts{.rows = op.count(out)};
  facts.trait(kSharedWords, out.dtype == DType::f16 && !is_whole, out.dtype == DType::f16 && op.varies({&input}));
  const Shader* const slide = slide_of(f);
  facts.trait(kSlides, slide != nullptr, false);
  const bool is_centred = x.stride == 1 && x.padding == x.kernel / 2;
  facts.trait(kShares, is_centred && x.source % 4 == 0, is_centred && op.varies({&input}));
  const auto& v = op.choose(kDepthwise, facts);
  const bool is_flat = v.shader == &wgsl::depthwise_flat;
  wgsl::DepthwiseParams params{.channels = narrow(f.columns),
                               .multiplier = narrow(f.columns / f.groups),
                               .size = xy<std::uint32_t>(f, &Axis::result),
                               .source = xy<std::uint32_t>(f, &Axis::source),
                               .kernel = xy<std::uint32_t>(f, &Axis::kernel),
                               .stride = xy<std::int32_t>(f, &Axis::stride),
                               .padding = xy<std::int32_t>(f, &Axis::padding),
                               .dilation = xy<std::int32_t>(f, &Axis::dilation),
                               .column_quads = narrow((width + 3) / 4),
                               .rows = 1,
                               .row_blocks = narrow(y.result()),
                               .low = f.least(),
                               .high = f.most()};
  const auto strips = out.shape[0] * out.shape[1] * params.column_quads;
  const bool slides = v.shader == &wgsl::depthwise_slide;
  const bool shares = v.right.subgroups;
  if (slides) {
    // As many rows as leave work for all cores: a block also loads rows of its neighbours.
    const auto most = std::clamp<std::int64_t>(y.result() * strips / op.profile().busy_threads(), 4, 4096);
    params.row_blocks = narrow((y.result() + most - 1) / most);
    params.rows = params.row_blocks == 0 ? 0 : (params.size[1] + params.row_blocks - 1) / params.row_blocks;
  }
  params.threads = is_flat ? quads_of(out.shape) : narrow(strips * params.row_blocks);
  Kernel kernel{.shader = *v.shader,
                .bind = {op.read("x", input).lanes(shares ? 4 : 1), op.read("weight", weight).lanes(1)},
                .params = params,
                .threads = params.threads,
                .work = Size(quads_of(out.shape)) * Size::from_signed(f.taps()),
                .slots = {{"bias", bias ? wgsl::depthwise_bias : wgsl::depthwise_no_bias},
                          {"activation", f.low || f.high ? wgsl::activation_clamp : wgsl::activation_none}}};
  if (bias) kernel.bind.push_back(op.read("bias", *bias));
  const auto result = op.write("result", out);
  // Rows that may be no whole quads in another call are written by elements.
  const bool by_quads = is_flat || (is_whole && !op.varies({&input})) || out.dtype == DType::f16;
  kernel.bind.push_back(by_quads ? result : result.lanes(1));
  if (!is_flat) kernel.slots.push_back({"store", by_quads ? wgsl::store_quads : wgsl::store_elements});
  if (slides) kernel.slots.push_back({"filter", *slide});
  if (slides && x.stride == 1) {
    kernel.slots.push_back({"window", shares ? wgsl::window_shared : x.kernel == 3 ? wgsl::window_3 : wgsl::window_5});
  }
  return op.dispatch(kernel);
}

/// The pixels become the columns of the product.
Status lay_out_pixels(Lowering& op, const Tensor& input, const Filter& f, Product& p) {
  TRY_ASSIGN(const auto params, lay_out(op, input, f));
  const auto& [y, x] = f.axes;
  const auto channels = narrow(f.padded_channels());
  const auto row = params.width * channels;
  p.weights = Weights::pixels;
  p.weight = Scratch::read("weight", elem_of(input.dtype));
  p.params.weight_batch = params.height * row;
  p.params.runs = narrow(f.taps());
  p.params.run = channels;
  p.params.pixel_width = narrow(x.result());
  p.params.pixel_row = row * narrow(y.kernel == 1 ? 1 : y.step());
  p.params.pixel_column = channels * narrow(x.kernel == 1 ? 1 : x.step());
  p.params.tap_width = narrow(x.kernel);
  p.params.tap_row = row * narrow(y.dilation);
  p.params.tap_column = channels * narrow(x.dilation);
  return {};
}

Status convolve_pixels(Lowering& op, const Tensor& input, const Tensor& weight,
                       const std::optional<Float<Tensor>>& bias, const Filter& f, const Out& out) {
  const auto pixels = narrow(f.pixels());
  const auto rows = narrow(f.columns / f.groups);
  Product p{.rows = {rows},
            .varies = op.varies({&input}),
            .is_filter = !op.varies({&weight}),
            .weights = Weights::columns,
            .x = op.read("x", weight),
            .is_clamped = f.low || f.high};
  p.params.rows = rows;
  p.params.batches = narrow(input.shape[0] * f.groups);
  p.params.x_batches = narrow(f.groups);
  p.params.addend_row = 1;
  p.params.addend_column = 0;
  p.params.low = f.least();
  p.params.high = f.most();
  p.params.sections[0] = {.width = pixels, .result_width = pixels};
  if (f.is_plain() && !f.is_rearranged) {
    p.params.depth = narrow(f.channels);
    p.params.weight_pitch = pixels;
    p.params.weight_batch = p.params.depth * pixels;
    p.weight = op.read("weight", input);
  } else {
    p.params.depth = narrow(f.taps() * f.padded_channels());
    TRY(lay_out_pixels(op, input, f, p));
  }
  p.max_depth = p.params.depth;
  if (bias) p.addend = op.read("addend", *bias);
  p.results[0] = op.write("result", out);
  return multiply(op, p);
}

Status convolve(Lowering& op, const Tensor& input, const Tensor& weight, const std::optional<Float<Tensor>>& bias,
                const Filter& f, Out& out) {
  TRY(set_result(op, input, f, bias, out));
  if (f.sees_one_channel()) {
    TRY(check_rounds(op, f.axes[0].kernel + f.taps()));
    return convolve_channels(op, input, weight, bias, f, out);
  }
  return convolve_pixels(op, input, weight, bias, f, out);
}

/// With the weight as the program stores it. The rewrite split_filters sees to those that must be rearranged.
template <class... Bounds>
Status convolution(Lowering& op, const Float<Tensor>& input, const Float<Tensor>& weight,
                   const std::optional<Float<Tensor>>& bias, const Ints& stride, const Ints& padding,
                   const Ints& dilation, bool transposed, const Ints& output_padding, std::int64_t groups,
                   Bounds... bounds, Float<Out>& out) {
  Shape kernel;
  for (std::size_t i = 2; i < weight.rank(); ++i) kernel.push_back(weight.shape[i]);
  TRY_ASSIGN(auto f, read_filter(op, input, kernel,
                                 {stride, padding, dilation, transposed, output_padding, groups, bounds...}));
  const auto channels = weight.shape[transposed ? 0 : 1];
  if (channels != (transposed ? input.shape[1] : f.channels) || (!transposed && weight.shape[0] % groups != 0)) {
    return op.fail("weight has shape {}, which does not fit an input of shape {} in {} groups", weight.shape,
                   input.shape, groups);
  }
  if (!f.lies_well()) {
    return nibble::fail(ErrorCode::internal, "{}: the weight of shape {} was not rearranged", op.name(), weight.shape);
  }
  f.columns = weight.shape[0];
  return convolve(op, input, weight, bias, f, out);
}

/// Rearranges a weight: a row for each output channel, with the channels of a tap together.
Status filter(Lowering& op, const Float<Tensor>& weight, bool transposed, std::int64_t groups, Float<Out>& out) {
  if (weight.rank() < 3 || groups < 1 || weight.shape[0] % groups != 0) {
    return op.fail("weight has shape {}, which has no filters in {} groups", weight.shape, groups);
  }
  const auto rows = weight.shape[0];
  std::int64_t taps = 1;
  for (std::size_t i = 2; i < weight.rank(); ++i) taps *= weight.shape[i];
  const auto channels = transposed ? rows / groups : weight.shape[1];
  const auto columns = transposed ? weight.shape[1] : rows;
  const auto quads = (channels + 3) / 4;
  TRY(op.set_shape(out, Shape{transposed ? columns * groups : rows, taps * quads * 4}));
  const wgsl::FilterParams params{.quads = quads_of(out.shape),
                                  .taps = narrow(taps),
                                  .channels = narrow(channels),
                                  .channel_quads = narrow(quads),
                                  .columns = narrow(columns),
                                  .group_stride = narrow(channels * columns * taps),
                                  .column_stride = narrow(transposed ? taps : channels * taps),
                                  .channel_stride = narrow(transposed ? columns * taps : taps),
                                  .is_turned = transposed ? 1U : 0U};
  return op.dispatch({.shader = wgsl::filter,
                      .bind = {op.read("source", weight), op.write("result", out)},
                      .params = params,
                      .threads = params.quads});
}

/// With a rearranged weight.
Status filtered(Lowering& op, const Float<Tensor>& input, const Float<Tensor>& weight,
                const std::optional<Float<Tensor>>& bias, const Ints& kernel_size, const Ints& stride,
                const Ints& padding, const Ints& dilation, bool transposed, const Ints& output_padding,
                std::int64_t groups, const std::optional<Number>& output_min, const std::optional<Number>& output_max,
                Float<Out>& out) {
  Shape kernel;
  for (std::size_t i = 0; i < kernel_size.size(); ++i) kernel.push_back(kernel_size[i]);
  TRY_ASSIGN(auto f,
             read_filter(op, input, kernel,
                         {stride, padding, dilation, transposed, output_padding, groups, output_min, output_max}));
  f.is_rearranged = true;
  const auto width = Size::from_signed(f.taps()) * Size::from_signed(f.padded_channels());
  // The rewrite compared the weight with the largest input: channels that are missing in a call are none of its.
  if (weight.rank() != 2 || weight.shape[0] % groups != 0 || !width.valid() ||
      Size::from_signed(weight.shape[1]).unchecked() != width.unchecked() || input.shape[1] != op.bound(input)[1]) {
    return op.fail("weight does not fit an input of shape {} in {} groups", input.shape, groups);
  }
  f.columns = weight.shape[0];
  return convolve(op, input, weight, bias, f, out);
}

constexpr auto clamped = convolution<std::optional<Number>, std::optional<Number>>;
constexpr Note kNotes = "1-D and 2-D; groups, dilation, transposed with output padding; any stride, padding and batch";

constexpr std::string_view kClamped =
    "input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, output_min, output_max -> out";

constexpr Op kConvolutionOps[] = {
    open<convolution<>>("aten.convolution.default",
                        "input, weight, bias, stride, padding, dilation, transposed, output_padding, groups -> out",
                        kNotes),
    open<clamped>("et_vk.conv_with_clamp.default", kClamped, kNotes),
    open<clamped>("conv_with_clamp.default", kClamped, "an older name"),
    op<filter>("nibble.filter", "weight, transposed, groups -> out",
               "made by a rewrite: weights with channels together"),
    open<filtered>("nibble.convolution",
                   "input, weight, bias, kernel_size, stride, padding, dilation, transposed, output_padding, groups, "
                   "output_min, output_max -> out",
                   "made by a rewrite: a convolution with rearranged weights"),
};

}  // namespace

const Family kConvolution{"convolution", kConvolutionOps, {&kProduct, &kProductLoads, &kDepthwise}};

}  // namespace nibble::ops
