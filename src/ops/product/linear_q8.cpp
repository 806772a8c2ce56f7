// Linear layers with 8-bit weights [N, K] and a scale for each row: of floats, or of bytes, which are multiplied as
// such.
#include <limits>

#include "ops/families.hpp"
#include "ops/product/product.hpp"
#include "ops/quantized/affine.hpp"

namespace nibble::ops {
namespace {

constexpr std::uint32_t kDeepI8 = 1;  // sums of the whole depth may not fit 32 bits

constexpr Variant kProductI8Variants[] = {
    Variant("registers_row", {.none_of = kDeepI8}, {.adapters = Adapters::cpu, .max_rows = 1}, {1, 4, 8},
            &wgsl::product_i8, "no barrier"),
    Variant("registers", {.none_of = kDeepI8}, {Adapters::cpu}, {4, 4, 8}, &wgsl::product_i8,
            "a weight is unpacked once for 4 rows"),
    Variant("row", {}, {.adapters = Adapters::gpu, .max_rows = 4}, {1, 4, 64}, &wgsl::product_i8_row,
            "the weights are read once, in runs of memory; right for all depths"),
    Variant("threads", {.none_of = kDeepI8}, {}, {4, 4, 64}, &wgsl::product_i8, "a thread for 16 results"),
};
const Choice kProductI8{"product_i8", kProductI8Variants, 1e-6F};

Status check_weight(const Lowering& op, const Tensor& weight, const Tensor& scales, std::int64_t depth) {
  if (weight.dtype != DType::i8 || weight.rank() != 2 || weight.shape[1] < depth) {
    return op.fail("{} must be int8 of shape [columns, {} or more], but it is {} {}", weight.arg, depth, weight.dtype,
                   weight.shape);
  }
  if (scales.numel() >= weight.shape[0]) return {};
  return op.fail("{} has shape {}, but {} has {} rows", scales.arg, scales.shape, weight.arg, weight.shape[0]);
}

/// The depth is the program's: kernels are planned for it.
std::int64_t depth_of(const Lowering& op, const Tensor& x) {
  const auto& bound = op.bound(x);
  return bound.rank() == 0 ? 0 : bound[bound.rank() - 1];
}

/// Floats times 8-bit weights. `x`, where given, stands for the input's elements.
Status multiply_floats(Lowering& op, const Tensor& input, const std::optional<BufferArg>& x, const Table& weight,
                       const Tensor& scales, const std::optional<Float<Tensor>>& bias, Out& out) {
  TRY_ASSIGN(auto p, product_of(op, input, weight, depth_of(op, input)));
  TRY(check_weight(op, weight, scales, p.params.depth));
  TRY(set_width(op, input, weight.shape[0], out));
  TRY(add_bias(op, p, bias, weight));
  if (x) p.x = *x;
  p.scales = op.read("scales", scales);
  return multiply_table(op, p, weight, out);
}

/// What follows a product of bytes.
struct Finish {
  double scale = 1;  ///< of the result, where it has bytes
  double zero = 0;
  bool relu = false;
};

Status multiply_bytes(Lowering& op, const Tensor& x, const Number& in_scale, const Number& in_zero, const Table& weight,
                      const Tensor& scales, const std::optional<Float<Tensor>>& bias, const Finish& finish, Out& out) {
  TRY_ASSIGN(auto p, product_of(op, x, weight, depth_of(op, x)));
  const auto depth = p.params.depth;
  TRY(check_weight(op, weight, scales, depth));
  TRY(set_width(op, x, weight.shape[0], out));
  TRY(add_bias(op, p, bias, weight));
  TRY(check_zero(op, in_zero));
  const bool is_bytes = out.dtype == DType::i8;
  const bool in_quads = weight.shape[0] % 4 == 0 && !op.is_sharded(weight);
  // Rows of bytes and of float16 that are no whole quads share words: such results are made of floats.
  const bool is_direct = in_quads || out.dtype == DType::f32;
  TRY_ASSIGN(const auto width, narrow(op, Size::from_signed(weight.shape[0]), weight.arg));
  wgsl::ProductI8Params params{.rows = p.params.rows,
                               .runs = 1,
                               .depth = depth,
                               .x_pitch = depth,
                               .result_width = width,
                               .zero = static_cast<std::int32_t>(in_zero.integer),
                               .scale = static_cast<float>(in_scale.value),
                               .lowest = finish.relu ? 0 : std::numeric_limits<float>::lowest(),
                               .inverse = static_cast<float>(1 / finish.scale),
                               .result_zero = static_cast<float>(finish.zero)};
  TRY_ASSIGN(params.weight_pitch, narrow(op, Size::from_signed(weight.shape[1]), weight.arg));
  // 255 * 128 * depth is below 2^31.
  const auto& v = op.choose(
      kProductI8, Facts{.rows = p.rows, .width = {width, p.varies ? 0 : width, p.varies ? When::kAny : width}}.trait(
                      kDeepI8, depth > 65536, false));
  const auto& dots = choose_dots(op);
  const bool in_vectors = depth % 16 == 0 && params.weight_pitch % 16 == 0 && !p.varies;
  const auto elem = in_vectors ? Elem::words4 : Elem::words;
  BufferArg result = op.write("result", out);
  if (!is_direct) {
    TRY_ASSIGN(const auto floats, op.scratch(Size::bytes(op.bound(out), DType::f32)));
    result = floats.write("result", Elem::f32);
  }
  TRY(op.for_each_row_range(weight.shape[0], {&weight}, [&](const RowRange& range) {
    params.width = narrow(range.end - range.begin);
    params.column_tiles = narrow(Size(params.width).div_up(4).unchecked());
    params.weight_first = narrow(range.begin - range.shards[0].row_begin);
    params.result_first = narrow(range.begin);
    const auto tiles = Size(params.rows).div_up(v.tile.rows) * params.column_tiles;
    params.tiles = narrow(tiles.unchecked());
    const bool is_shared = v.shader == &wgsl::product_i8_row;
    Kernel kernel{.shader = *v.shader,
                  .bind = {p.x.raw(elem), op.read("weight", weight, range.shards[0]).raw(elem),
                           op.read("scales", scales), in_quads ? result : result.lanes(1)},
                  .params = params,
                  .threads = (is_shared ? tiles * v.tile.threads : tiles).unchecked(),
                  .workgroup = v.tile.threads,
                  .work = (Size(params.rows) * params.width * params.runs * params.depth).div_up(4),
                  .whole_groups = is_shared,
                  .overrides = {{"TILE_ROWS", static_cast<double>(v.tile.rows)}},
                  .slots = {{"x", wgsl::x_of_rows},
                            {"dots", dots},
                            {"bytes", in_vectors ? wgsl::bytes_in_vectors : wgsl::bytes_anywhere},
                            {"bias", p.addend ? wgsl::bias_of_columns : wgsl::bias_of_none},
                            {"store", !in_quads  ? wgsl::store_elements
                                      : is_bytes ? wgsl::store_rounded
                                                 : wgsl::store_quads}}};
    if (p.addend) kernel.bind.push_back(*p.addend);
    return op.dispatch(kernel);
  }));
  if (is_direct) return {};
  auto rounding = fixed_params(is_bytes ? finish.scale : 1, is_bytes ? finish.zero : 0);
  return change_all(op, {Scratch::read("source", Elem::f32), op.write("result", out)}, rounding, out.shape,
                    is_bytes ? wgsl::quantize : wgsl::dequantize);
}

Status int8pack_mm(Lowering& op, const Float<Tensor>& self, const Table& mat2, const Float<Tensor>& scales,
                   Float<Out>& out) {
  return multiply_floats(op, self, {}, mat2, scales, {}, out);
}

Status linear_q8csw(Lowering& op, const Float<Tensor>& self, const Table& weights, const Float<Tensor>& scales,
                    const std::optional<Float<Tensor>>& bias, Float<Out>& out) {
  return multiply_floats(op, self, {}, weights, scales, bias, out);
}

/// x comes as bytes, or as floats that are rounded first.
Status linear_q8ta(Lowering& op, const Tensor& x, const Number& in_scale, const Number& in_zero, const Table& weights,
                   Ignored, const Float<Tensor>& scales, const std::optional<Float<Tensor>>& bias, Float<Out>& out) {
  if (x.dtype == DType::i8) return multiply_bytes(op, x, in_scale, in_zero, weights, scales, bias, {}, out);
  if (!is_float(x.dtype)) return op.fail("x must be int8, float32 or float16, but it is {}", x.dtype);
  TRY_ASSIGN(const auto rounded, op.scratch(Size::bytes(op.bound(x), DType::f32)));
  TRY(change_all(op, {op.read("source", x), rounded.write("result", Elem::f32)},
                 fixed_params(in_scale.value, in_zero.value), x.shape, wgsl::quantize_and_back));
  return multiply_floats(op, x, rounded.read("x", Elem::f32), weights, scales, bias, out);
}

Status q8ta_linear(Lowering& op, const Tensor& x, const Number& in_scale, const Number& in_zero, const Table& weights,
                   Ignored, const Float<Tensor>& scales, const Number& scale, const Number& zero,
                   const std::optional<Float<Tensor>>& bias, std::string_view activation, Out& out) {
  if (x.dtype != DType::i8 || out.dtype != DType::i8) {
    return op.fail("x and the output must be int8, but they are {} and {}", x.dtype, out.dtype);
  }
  TRY(check_activation(op, activation));
  return multiply_bytes(op, x, in_scale, in_zero, weights, scales, bias,
                        {scale.value, zero.value, activation == "relu"}, out);
}

constexpr std::string_view kBytes =
    "x, input_scale, input_zero_point, weights, weight_sums, weight_scales, output_scale, output_zero_point, bias, "
    "activation -> out";
constexpr Note kAnyWidth = "any depth and width; weights of any size";

constexpr Op kLinearQ8Ops[] = {
    open<int8pack_mm>("aten._weight_int8pack_mm.default", "self, mat2, scales -> out", kAnyWidth),
    open<linear_q8csw>("et_vk.linear_q8csw.default", "self, weights, weight_scales, bias -> out", kAnyWidth),
    op<linear_q8ta>("et_vk.linear_q8ta_q8csw.default",
                    "x, input_scale, input_zero_point, weights, weight_sums, weight_scales, bias -> out",
                    "x of int8, or of floats, which are rounded"),
    op<q8ta_linear>("et_vk.q8ta_linear.default", kBytes, kAnyWidth),
    op<q8ta_linear>("et_vk.q8ta_linear_gemv.default", kBytes, kAnyWidth),
};

}  // namespace

const Family kLinearQ8{"linear_q8", kLinearQ8Ops, {&kProductI8, &kDots}};

}  // namespace nibble::ops
