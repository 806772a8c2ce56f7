// Quantizing and dequantizing: with one scale, with one for each channel or token, or for each block of any form.
#include <algorithm>
#include <array>
#include <cmath>

#include "ops/elementwise/broadcast.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "ops/families.hpp"
#include "ops/move/move.hpp"
#include "ops/quantized/affine.hpp"

namespace nibble::ops {

Result<Blocks> blocks_of(const Lowering& op, const Tensor& input, const LiveInts& block_size) {
  if (block_size.size() != input.rank()) {
    return op.fail("block_size has {} items, but {} has {} dimensions", block_size.size(), input.arg, input.rank());
  }
  Blocks b;
  bool fits = true;
  bool was_repeated = false;
  bool is_inside = false;
  const auto add = [&](std::int64_t size, bool is_repeated) {
    if (size == 1) return;
    const auto last = b.view.rank() - 1;
    if (b.view.rank() > 0 && was_repeated == is_repeated) {
      b.view[last] *= size;
      b.groups[last] *= is_repeated ? 1 : size;
    } else {
      fits = b.view.push_back(size) && b.groups.push_back(is_repeated ? 1 : size) && fits;
    }
    was_repeated = is_repeated;
  };
  for (std::size_t i = 0; i < input.rank(); ++i) {
    const auto size = input.shape[i];
    const auto block = block_size[i];
    const bool is_whole = block == size;
    if (!is_whole && (block < 1 || size % block != 0)) {
      return op.fail("block_size[{}] is {}, which does not divide the size {}", i, block, size);
    }
    b.is_runs = b.is_runs && (!is_inside || is_whole);
    is_inside = is_inside || block != 1;
    b.counts.push_back(is_whole ? 1 : size / block);
    // A block that is given as a SymInt is a whole dimension.
    const auto most = op.bound(input)[i];
    b.most_sizes.push_back(block_size.is_live(i) ? most : std::min(block, most));
    b.most_counts.push_back(block_size.is_live(i) || most == 0 ? 1 : (most - 1) / std::max<std::int64_t>(1, block) + 1);
    add(b.counts[i], false);
    add(std::min(block, size), true);
  }
  if (!fits) return op.fail("{} of shape {} is cut in more dimensions than {}", input.arg, input.shape, b.view.rank());
  return b;
}

Status set_bounds(const Lowering& op, const std::optional<Number>& low, const std::optional<Number>& high, DType dtype,
                  wgsl::AffineParams& params) {
  if (dtype != DType::i8 && dtype != DType::u8 && dtype != DType::i32) {
    return op.fail("integers must be int8, uint8 or int32, but they are {}", dtype);
  }
  const double least = dtype == DType::i8 ? -128 : dtype == DType::u8 ? 0 : -2147483648.0;
  const double most = dtype == DType::i8 ? 127 : dtype == DType::u8 ? 255 : 2147483647.0;
  const double from = low ? low->value : least;
  const double to = high ? high->value : most;
  const bool fits = from <= to && from >= least && to <= most;
  if (!fits) {
    return op.fail("quant_min and quant_max are {} and {}, but {} is from {} to {}", from, to, dtype, least, most);
  }
  params.low = static_cast<float>(from);
  params.high = static_cast<float>(to);
  return {};
}

wgsl::AffineParams fixed_params(double scale, double zero, double inverse) {
  return {.rank = 1,
          .scale = static_cast<float>(scale),
          .inverse = static_cast<float>(inverse),
          .zero = static_cast<float>(zero),
          .low = -128,
          .high = 127};
}

wgsl::AffineParams fixed_params(double scale, double zero) { return fixed_params(scale, zero, 1 / scale); }

namespace {

/// The groups are those of the parameters.
Status change(Lowering& op, const Bindings& bind, wgsl::AffineParams params, const Shape& shape, const Slots& slots) {
  params.quads = quads_of(shape);
  params.count = narrow(shape.numel());
  return op.dispatch_quads(wgsl::affine, bind, params, slots);
}

}  // namespace

Status change_all(Lowering& op, const Bindings& bind, wgsl::AffineParams params, const Shape& shape,
                  const Shader& shader) {
  return change(op, bind, params, shape, {{"factors", wgsl::factors_fixed}, {"change", shader}});
}

namespace {

/// There are as many groups as scales, and as zero points where these are given.
Status change_groups(Lowering& op, const Tensor& in, const Out& out, const Tensor& scale, const Tensor* zero,
                     const Blocks& blocks, wgsl::AffineParams params, const Shader& shader) {
  if (!is_float(scale.dtype)) {
    return op.fail("{} must be float32 or float16, but it is {}", scale.arg, scale.dtype);
  }
  const auto groups = blocks.groups.numel();
  for (const Tensor* one : {&scale, zero}) {
    if (one == nullptr || one->numel() == groups || in.numel() == 0) continue;
    return op.fail("{} has shape {}, but {} of shape {} has {} groups", one->arg, one->shape, in.arg, in.shape, groups);
  }
  const std::array<Shape, 1> operands{blocks.groups};
  params.rank = collapse_broadcast(blocks.view, operands, params.sizes, std::span(&params.strides, 1));
  if (params.rank == 0) params.sizes[params.rank++] = 1;
  const auto inner = params.rank - 1;
  params.one_group = params.strides[inner] == 0 && (inner == 0 || params.sizes[inner] % 4 == 0) ? 1 : 0;
  Bindings bind{op.read("source", in), op.read("scale", scale), op.write("result", out)};
  if (zero != nullptr) bind.push_back(op.read("zero", *zero));
  return change(op, bind, params, out.shape,
                {{"factors", wgsl::factors_of_groups},
                 {"zero", zero != nullptr ? wgsl::zero_of_group : wgsl::zero_of_none},
                 {"change", shader}});
}

/// What all of these ops begin with: the result's shape and, where it has integers, their range.
Result<wgsl::AffineParams> begin(Lowering& op, const Tensor& in, const std::optional<Number>& low,
                                 const std::optional<Number>& high, bool is_back, Out& out) {
  TRY(op.set_shape(out, in.shape));
  wgsl::AffineParams params{};
  if (is_float(in.dtype) == is_back || is_float(out.dtype) != is_back) {
    return op.fail("cannot make {} of {}", out.dtype, in.dtype);
  }
  if (!is_back) TRY(set_bounds(op, low, high, out.dtype, params));
  return params;
}

/// Of a tensor seen as [outer, groups, inner]: the dimensions from `first` on, before `end`, count groups.
Blocks middle(const Shape& shape, std::size_t first, std::size_t end) {
  const auto dims = shape.dims();
  const auto groups = wrapping_product(dims.subspan(first, end - first));
  return {.view = {wrapping_product(dims.first(first)), groups, wrapping_product(dims.subspan(end))},
          .groups = {1, groups, 1},
          .counts = {},
          .most_counts = {},
          .most_sizes = {}};
}

// The ops: those that go back have one argument more that does not matter, a dtype, which the tensors have.
template <class... Types>
constexpr bool is_back = sizeof...(Types) == 2;

const Shader& shader(bool back) { return back ? wgsl::dequantize : wgsl::quantize; }

template <class... Types>
Status by_numbers(Lowering& op, const Tensor& input, const Number& scale, const Number& zero, const Number& low,
                  const Number& high, Types..., Out& out) {
  constexpr bool kBack = is_back<Types...>;
  TRY_ASSIGN(const auto bounds, begin(op, input, low, high, kBack, out));
  auto params = fixed_params(scale.value, zero.value);
  params.low = bounds.low;
  params.high = bounds.high;
  if (op.is_joined()) {
    constexpr std::string_view kQuantize =
        "vec4<i32>(clamp(round(v * params.x) + params.y, vec4<f32>(params.z), vec4<f32>(params.w)))";
    return join(op, {&input}, out,
                {.expression = kBack ? "(v - params.y) * params.x" : kQuantize,
                 .numbers = {kBack ? params.scale : params.inverse, params.zero, params.low, params.high}});
  }
  return change_all(op, {op.read("source", input), op.write("result", out)}, params, out.shape, shader(kBack));
}

template <class... Types>
Status by_tensors(Lowering& op, const Tensor& input, const Tensor& scale, const Tensor& zero, const Number& low,
                  const Number& high, Types..., Out& out) {
  TRY_ASSIGN(const auto params, begin(op, input, low, high, is_back<Types...>, out));
  return change_groups(op, input, out, scale, &zero, middle(input.shape, 0, 0), params, shader(is_back<Types...>));
}

template <class... Types>
Status by_channel(Lowering& op, const Tensor& input, const Tensor& scales, const std::optional<Tensor>& zeros,
                  std::int64_t axis, const Number& low, const Number& high, Types..., Out& out) {
  TRY_ASSIGN(const auto params, begin(op, input, low, high, is_back<Types...>, out));
  TRY_ASSIGN(const auto d, op.dim(axis, input.rank(), "axis"));
  if (input.rank() == 0) return op.fail("input is a scalar, which has no channels");
  return change_groups(op, input, out, scales, zeros ? &*zeros : nullptr, middle(input.shape, d, d + 1), params,
                       shader(is_back<Types...>));
}

template <class... Types>
Status by_token(Lowering& op, const Tensor& input, const Tensor& scales, const Tensor& zeros, const Number& low,
                const Number& high, Types..., Out& out) {
  TRY_ASSIGN(const auto params, begin(op, input, low, high, is_back<Types...>, out));
  if (input.rank() == 0) return op.fail("input is a scalar, which has no tokens");
  return change_groups(op, input, out, scales, &zeros, middle(input.shape, 0, input.rank() - 1), params,
                       is_back<Types...> ? wgsl::dequantize : wgsl::quantize_tokens);
}

template <class... Types>
Status by_block(Lowering& op, const Tensor& input, const LiveInts& block_size, const Tensor& scale,
                const std::optional<Tensor>& zero, Ignored, const std::optional<Number>& low,
                const std::optional<Number>& high, Types..., Out& out) {
  constexpr bool kBack = sizeof...(Types) == 1;
  TRY_ASSIGN(const auto params, begin(op, input, low, high, kBack, out));
  TRY_ASSIGN(const auto blocks, blocks_of(op, input, block_size));
  // A zero point without elements is none.
  const bool has_zero = zero && zero->numel() > 0;
  return change_groups(op, input, out, scale, has_zero ? &*zero : nullptr, blocks, params, shader(kBack));
}

// --- int8 in and out ---

Status check_bytes(const Lowering& op, std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* t : tensors) {
    if (t->dtype != DType::i8) return op.fail("{} must be int8, but it is {}", t->arg, t->dtype);
  }
  return {};
}

Status q8_add(Lowering& op, const Tensor& a, const Tensor& b, const Number& a_scale, const Number& a_zero,
              const Number& b_scale, const Number& b_zero, const Number& scale, const Number& zero, const Number& alpha,
              Out& out) {
  TRY(check_bytes(op, {&a, &b, &out}));
  Shape shape;
  if (!broadcast(a.shape, b.shape, shape)) return op.fail("shapes {} and {} do not broadcast", a.shape, b.shape);
  TRY(op.set_shape(out, shape));
  Kernel kernel =
      broadcast_kernel(op, wgsl::binary, {&a, &b}, out,
                       {.x = alpha.to_float(),
                        .numbers = {a_scale.to_float(), a_zero.to_float(), b_scale.to_float(), b_zero.to_float(),
                                    static_cast<float>(1 / scale.value), zero.to_float()}});
  kernel.expression = "add_bytes(a, b)";
  kernel.slots.push_back({"type", wgsl::truth});
  kernel.slots.push_back({"functions", wgsl::add_bytes});
  return op.dispatch(kernel);
}

Status q8_relu(Lowering& op, const Tensor& input, const Number& in_scale, const Number& in_zero, const Number& scale,
               const Number& zero, Out& out) {
  TRY(check_bytes(op, {&input, &out}));
  TRY(op.set_shape(out, input.shape));
  auto params = fixed_params(in_scale.value, in_zero.value, 1 / scale.value);
  params.result_zero = zero.to_float();
  return change_all(op, {op.read("source", input), op.write("result", out)}, params, out.shape, wgsl::requantize_relu);
}

Status q8_pixel_shuffle(Lowering& op, const Tensor& input, const Number& in_scale, const Number& in_zero,
                        const Number& inverse, const Number& zero, std::int64_t factor, Out& out) {
  TRY(check_bytes(op, {&input, &out}));
  TRY(pixel_shuffle(op, input, factor, out));
  // Where both sides have the same steps, every integer stays what it is.
  if (in_zero.value == zero.value && std::abs(in_scale.value * inverse.value - 1) < 1e-4) return {};
  // As torch, which takes the inverse of the inverse.
  auto params = fixed_params(in_scale.value, in_zero.value, 1 / (1 / inverse.value));
  params.result_zero = zero.to_float();
  return change_all(op, {op.write("result", out)}, params, out.shape, wgsl::requantize_in_place);
}

constexpr std::string_view kTensorArgs = "input, scale, zero_point, quant_min, quant_max, dtype -> out";
constexpr std::string_view kBackArgs = "input, scale, zero_point, quant_min, quant_max, dtype, out_dtype -> out";
constexpr Note kIntegers = "int8, uint8, int32";

constexpr Op kQuantizeOps[] = {
    elementwise<by_numbers<Ignored>>("quantized_decomposed.quantize_per_tensor.default", kTensorArgs, {}, kIntegers),
    op<by_tensors<Ignored>>("quantized_decomposed.quantize_per_tensor.tensor", kTensorArgs, kIntegers),
    elementwise<by_numbers<Ignored, Ignored>>("quantized_decomposed.dequantize_per_tensor.default", kBackArgs, {},
                                              kIntegers),
    op<by_tensors<Ignored, Ignored>>("quantized_decomposed.dequantize_per_tensor.tensor", kBackArgs, kIntegers),
    op<by_channel<Ignored>>("quantized_decomposed.quantize_per_channel.default",
                            "input, scales, zero_points, axis, quant_min, quant_max, dtype -> out", "any axis"),
    op<by_channel<Ignored, Ignored>>("quantized_decomposed.dequantize_per_channel.default",
                                     "input, scales, zero_points, axis, quant_min, quant_max, dtype, out_dtype -> out",
                                     "any axis; zero points may be absent"),
    op<by_token<Ignored>>("quantized_decomposed.quantize_per_token.default",
                          "input, scales, zero_points, quant_min, quant_max, dtype -> out", kIntegers),
    op<by_token<Ignored, Ignored>>("quantized_decomposed.dequantize_per_token.default",
                                   "input, scales, zero_points, quant_min, quant_max, dtype, output_dtype -> out",
                                   kIntegers),
    op<by_block<>>("torchao.quantize_affine.default",
                   "input, block_size, scale, zero_point, output_dtype, quant_min, quant_max -> out",
                   "blocks of any form"),
    op<by_block<Ignored>>(
        "torchao.dequantize_affine.default",
        "input, block_size, scale, zero_point, input_dtype, quant_min, quant_max, output_dtype -> out",
        "blocks of any form"),
    op<q8_add>("et_vk.q8ta_add.default",
               "input_a, input_b, input_a_scale, input_a_zero_point, input_b_scale, input_b_zero_point, output_scale, "
               "output_zero_point, alpha -> out",
               "operands broadcast"),
    op<q8_relu>("et_vk.q8ta_relu.default",
                "input, input_scale, input_zero_point, output_scale, output_zero_point -> out"),
    op<q8_pixel_shuffle>("et_vk.q8ta_pixel_shuffle.default",
                         "input, input_scale, input_zero_point, output_inv_scale, output_zero_point, upscale_factor "
                         "-> out"),
};

}  // namespace

const Family kQuantize{"quantize", kQuantizeOps};

}  // namespace nibble::ops
