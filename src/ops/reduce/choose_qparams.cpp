// The scale and the zero point that fit a row's values into a range of integers.
#include <limits>

#include "ops/checks.hpp"
#include "ops/families.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

/// The shape of the results, which has a size for each block. Every block must be one run of elements: in the
/// outermost of its dimensions longer than 1 it may be a part, in all further ones it is whole.
Result<Shape> blocks(const Lowering& op, const Tensor& input, const LiveInts& block_size, bool keepdim) {
  if (block_size.size() != input.rank()) {
    return op.fail("block_size has {} items, but input has {} dimensions", block_size.size(), input.rank());
  }
  Shape shape;
  bool is_inside = false;
  for (std::size_t i = 0; i < input.rank(); ++i) {
    const auto size = input.shape[i];
    const auto block = block_size[i];
    if (block < 1 || size % block != 0) {
      return op.fail("block_size[{}] is {}, which does not divide the size {}", i, block, size);
    }
    if (is_inside && block != size) {
      return op.fail("block_size[{}] is {}, but a block must be one run of the input, whose shape is {}", i, block,
                     input.shape);
    }
    is_inside |= block != 1;
    if (keepdim || block == 1 || block != size) shape.push_back(size / block);
  }
  return shape;
}

// A workgroup makes four rows, because the results of four are stored as one; a quarter of its threads folds each.
constexpr Variant kVariants[] = {
    Variant("vector", {.max_width = 8 * DeviceProfile::kMaxRounds}, {Adapters::cpu}, {4, 1, 32}, {},
            "a CPU adapter runs the threads of a quarter as one vector"),
    Variant("group", {}, {}, {4, 1, 256}, {}, "neighbouring lanes read neighbouring elements"),
};
constexpr Choice kQparams{"choose_qparams", kVariants};

Status choose_qparams_affine(Lowering& op, const Float<Tensor>& input, std::string_view mapping,
                             const LiveInts& block_size, Ignored, const std::optional<Number>& quant_min,
                             const std::optional<Number>& quant_max, const std::optional<Number>& eps, Ignored, Ignored,
                             bool keepdim, const Outs& outs) {
  if (mapping != "ASYMMETRIC") return op.fail("mapping_type is {}, but only ASYMMETRIC is computed", mapping);
  if (outs.size() != 2 || !outs.has(0) || !outs.has(1)) return op.fail("out must hold two tensors");
  Out scale = outs[0];
  Out zero = outs[1];
  if (!is_float(scale.dtype)) return op.fail("the scale must be float32 or float16, but it is {}", scale.dtype);
  if (zero.dtype != DType::i8 && zero.dtype != DType::i32) {
    return op.fail("the zero point must be int8 or int32, but it is {}", zero.dtype);
  }
  const double low = quant_min ? quant_min->value : -128;
  const double high = quant_max ? quant_max->value : 127;
  if (!(low < high)) return op.fail("quant_min is {}, which is not below quant_max, {}", low, high);
  if (zero.dtype == DType::i8 && (low < -128 || high > 127)) {
    return op.fail("quant_min and quant_max are {} and {}, but the zero point is int8", low, high);
  }
  TRY_ASSIGN(const auto shape, blocks(op, input, block_size, keepdim));
  TRY(op.set_shape(scale, shape));
  TRY(op.set_shape(zero, shape));

  const std::int64_t rows = shape.numel();
  const std::int64_t width = rows == 0 ? 0 : input.numel() / rows;
  const wgsl::ChooseQparamsParams params{narrow(rows), narrow(width), static_cast<float>(low), static_cast<float>(high),
                                         eps ? static_cast<float>(eps->value) : std::numeric_limits<float>::min()};
  Size most_width = 1;
  for (std::size_t i = 0; i < input.rank(); ++i) {
    if (block_size[i] != 1) most_width = most_width * Size::from_signed(op.bound(input)[i]);
  }
  const Facts facts{.rows = {}, .width = op.extent(narrow(width), most_width.unchecked(), {&input})};
  const auto& tile = op.choose(kQparams, facts).tile;
  return op.dispatch({.shader = wgsl::choose_qparams,
                      .bind = {op.read("source", input), op.write("scale", scale), op.write("zero_point", zero)},
                      .params = params,
                      .threads = (Size::from_signed(rows).div_up(tile.rows) * tile.threads).unchecked(),
                      .workgroup = tile.threads,
                      .whole_groups = true});
}

constexpr Op kOps[] = {
    op<choose_qparams_affine>("torchao.choose_qparams_affine.default",
                              "input, mapping_type, block_size, target_dtype, quant_min, quant_max, eps, scale_dtype, "
                              "zero_point_dtype, keepdim -> out",
                              "asymmetric; blocks that are runs of elements"),
};

}  // namespace

const Family kChooseQparams{"choose_qparams", kOps, {&kQparams}};

}  // namespace nibble::ops
