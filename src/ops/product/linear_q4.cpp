// Linear layers with 4-bit weights [N, K / 2]: value = (nibble - 8) * scale of its group and row. Scales lie group by
// group, [K / group_size, N or more]; offsets of groups, which are added to the value, lie behind them in the same way.
#include "ops/families.hpp"
#include "ops/product/product.hpp"

namespace nibble::ops {
namespace {

Status check_weight(const Lowering& op, const Tensor& weight, std::int64_t depth, std::int64_t group_size) {
  // The exporter pads rows to whole words where the depth is no multiple of 8.
  if (weight.dtype != DType::u8 || weight.rank() != 2 || weight.shape[1] < (depth + 1) / 2) {
    return op.fail("{} must be uint8 of shape [columns, {} or more] for a depth of {}, but it is {} {}", weight.arg,
                   (depth + 1) / 2, depth, weight.dtype, weight.shape);
  }
  if (group_size <= 0 || depth % group_size != 0) {
    return op.fail("group_size is {}, which does not divide the depth {}", group_size, depth);
  }
  return {};
}

/// `groups` counts those of offsets too.
Status check_scales(const Lowering& op, const Tensor& scales, std::int64_t groups, std::int64_t columns) {
  if (scales.rank() != 2 || scales.shape[0] < groups || scales.shape[1] < columns) {
    return op.fail("{} has shape {}, but {} groups of {} columns need [{}, {}]", scales.arg, scales.shape, groups,
                   columns, groups, columns);
  }
  return {};
}

/// What all 4-bit linears share; the sections, results and what is added are the op's. The depth is the program's:
/// kernels are planned for it.
Result<Product> q4_product(Lowering& op, const Tensor& x, const Tensor& weight, const Tensor& scales,
                           std::int64_t group_size) {
  const auto& bound = op.bound(x);
  const std::int64_t depth = bound.rank() == 0 ? 0 : bound[bound.rank() - 1];
  TRY_ASSIGN(auto p, product_of(op, x, weight, depth));
  TRY(check_weight(op, weight, depth, group_size));
  // Bytes of a shard are counted in 32 bits; the columns of all shards must be too.
  TRY_ASSIGN([[maybe_unused]] const auto columns, narrow(op, Size::from_signed(weight.shape[0]), weight.arg));
  p.weights = Weights::q4;
  p.varies = op.varies({&weight, &scales});
  p.params.weight_pitch = narrow(weight.shape[1]);
  p.params.group_size = narrow(group_size);
  return p;
}

/// One dispatch for each shard of the weight, which makes its own columns of the result.
Status multiply_shards(Lowering& op, Product p, const Table& weight, const Columns& scales, const Out& out) {
  p.results[0] = op.write("result", out);
  return op.for_each_row_range(weight.shape[0], {&weight, &scales}, [&](const RowRange& range) {
    const auto& [in_weight, in_scales, unused1, unused2] = range.shards;
    const auto pitch = narrow(op.pitch(scales, in_scales));
    p.weight = op.read("weight", weight, in_weight);
    p.scales = op.read("scales", scales, in_scales);
    p.params.sections[0] = {.width = narrow(range.end - range.begin),
                            .weight_first = narrow(range.begin - in_weight.row_begin),
                            .scales_first = narrow(range.begin - in_scales.row_begin),
                            .scales_pitch = pitch,
                            .result_first = narrow(range.begin),
                            .result_width = narrow(weight.shape[0]),
                            .offsets = p.params.depth / p.params.group_size * pitch};
    return multiply(op, p);
  });
}

/// Writes x rounded to 8 bits by row.
Status round_to(Lowering& op, const Tensor& x, const Tensor& scales, const Tensor& zero_points,
                const BufferArg& result) {
  TRY_ASSIGN(const auto p, product_of(op, x, x, last_dim(x)));
  const auto rows = p.params.rows;
  if (zero_points.dtype != DType::i8 && zero_points.dtype != DType::i32) {
    return op.fail("{} must be int8 or int32, but it is {}", zero_points.arg, zero_points.dtype);
  }
  if (scales.numel() < rows || zero_points.numel() < rows) {
    return op.fail("{} and {} have {} and {} elements, but there are {} rows", scales.arg, zero_points.arg,
                   scales.numel(), zero_points.numel(), rows);
  }
  return op.dispatch({.shader = wgsl::round_rows,
                      .bind = {op.read("x", x), op.read("scale", scales), op.read("zero", zero_points), result},
                      .params = wgsl::RoundRowsParams{narrow(x.numel()), narrow(last_dim(x))},
                      .threads = quads_of(x.shape)});
}

/// A linear with groups of columns that share a scale; the op says what x is.
Result<Product> grouped_product(Lowering& op, const Tensor& x, const Tensor& weights, const Tensor& scales,
                                std::int64_t group_size, const std::optional<Float<Tensor>>& bias, Out& out,
                                bool has_offsets = false) {
  TRY_ASSIGN(auto p, q4_product(op, x, weights, scales, group_size));
  p.has_offsets = has_offsets;
  TRY(check_scales(op, scales, p.params.depth / group_size * (has_offsets ? 2 : 1), weights.shape[0]));
  TRY(add_bias(op, p, bias, weights));
  TRY(set_width(op, x, weights.shape[0], out));
  return p;
}

template <bool HasOffsets>
Status linear_q4gsw(Lowering& op, const Float<Tensor>& self, const Table& weights, const Float<Columns>& scales,
                    std::int64_t group_size, const std::optional<Float<Tensor>>& bias, Float<Out>& out) {
  TRY_ASSIGN(const auto p, grouped_product(op, self, weights, scales, group_size, bias, out, HasOffsets));
  return multiply_shards(op, p, weights, scales, out);
}

Status linear_qcs4w(Lowering& op, const Float<Tensor>& self, const Table& weight, const Float<Columns>& scales,
                    Float<Out>& out) {
  TRY_ASSIGN(auto p, q4_product(op, self, weight, scales, std::max<std::int64_t>(1, last_dim(self))));
  if (scales.numel() < weight.shape[0]) {
    return op.fail("scales has shape {}, but weight has {} rows", scales.shape, weight.shape[0]);
  }
  TRY(set_width(op, self, weight.shape[0], out));
  p.weights = Weights::q4_swapped;
  return multiply_shards(op, p, weight, scales, out);
}

Status linear_dq8ca_q4gsw(Lowering& op, const Float<Tensor>& input, const Float<Tensor>& input_scales,
                          const Tensor& input_zp, const Table& weights, Ignored, const Float<Columns>& scales,
                          std::int64_t group_size, const std::optional<Float<Tensor>>& bias, Float<Out>& out) {
  TRY_ASSIGN(auto p, grouped_product(op, input, weights, scales, group_size, bias, out));
  TRY_ASSIGN(const auto rounded, op.scratch(Size::bytes(op.bound(input), DType::f32)));
  TRY(round_to(op, input, input_scales, input_zp, rounded.write("result", Elem::f32)));
  p.x = rounded.read("x", Elem::f32);
  return multiply_shards(op, p, weights, scales, out);
}

// --- made by graph passes ---

Status round_rows(Lowering& op, const Float<Tensor>& self, const Float<Tensor>& scales, const Tensor& zero_points,
                  Float<Out>& out) {
  TRY(op.set_shape(out, self.shape));
  return round_to(op, self, scales, zero_points, op.write("result", out));
}

/// Linears whose weights lie one after another, and so do their scales, each a block [groups, pitch], or [2 * groups,
/// pitch] with offsets.
Result<Product> sections_product(Lowering& op, const Tensor& x, const Tensor& weight, const Tensor& scales,
                                 std::int64_t group_size, const Ints& widths, const Ints& pitches,
                                 const std::optional<bool>& has_offsets) {
  TRY_ASSIGN(auto p, q4_product(op, x, weight, scales, group_size));
  p.has_offsets = has_offsets.value_or(false);
  if (widths.size() < 2 || widths.size() > p.params.sections.size() || pitches.size() != widths.size()) {
    return op.fail("widths and pitches have {} and {} items, but there must be 2 or 3 of each", widths.size(),
                   pitches.size());
  }
  const Size groups = Size::from_signed(p.params.depth / group_size);
  Size columns = 0;
  Size scale = 0;
  p.sections = widths.size();
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] < 0 || widths[i] % 4 != 0 || pitches[i] < widths[i]) {
      return op.fail("a section is {} wide with scales of pitch {}, but widths are multiples of 4 and pitches no less",
                     widths[i], pitches[i]);
    }
    const auto width = narrow(widths[i]);
    p.params.sections[i] = {.width = width,
                            .weight_first = narrow(columns.unchecked()),
                            .scales_first = narrow(scale.unchecked()),
                            .scales_pitch = narrow(pitches[i]),
                            .result_width = width,
                            .offsets = narrow((groups * Size::from_signed(pitches[i])).unchecked())};
    columns = columns + Size::from_signed(widths[i]);
    scale = scale + groups * Size::from_signed(pitches[i]) * (p.has_offsets ? 2 : 1);
  }
  if (!columns.fits(static_cast<std::uint64_t>(weight.shape[0])) ||
      !scale.fits(static_cast<std::uint64_t>(scales.numel()))) {
    return op.fail("weights and weight_scales have shapes {} and {}, too small for {} columns with {} scales",
                   weight.shape, scales.shape, columns.unchecked(), scale.unchecked());
  }
  p.weight = op.read("weight", weight);
  p.scales = op.read("scales", scales);
  return p;
}

Status linear_q4gsw_parts(Lowering& op, const Float<Tensor>& self, const Tensor& weights, const Float<Tensor>& scales,
                          std::int64_t group_size, const Ints& widths, const Ints& pitches,
                          const std::optional<bool>& has_offsets, const Float<Outs>& outs) {
  TRY_ASSIGN(auto p, sections_product(op, self, weights, scales, group_size, widths, pitches, has_offsets));
  if (outs.size() != widths.size()) return op.fail("has {} outputs, but {} widths", outs.size(), widths.size());
  constexpr std::array<std::string_view, 3> kNames = {"result", "result1", "result2"};
  for (std::size_t i = 0; i < outs.size(); ++i) {
    if (!outs.has(i)) return op.fail("output {} is absent", i);
    Out out = outs[i];
    TRY(set_width(op, self, widths[i], out));
    p.results[i] = op.write(kNames[i], out);
  }
  return multiply(op, p);
}

Status linear_q4gsw_gated(Lowering& op, const Float<Tensor>& self, const Tensor& weights, const Float<Tensor>& scales,
                          std::int64_t group_size, const Ints& widths, const Ints& pitches,
                          const std::optional<bool>& has_offsets, Float<Out>& out) {
  TRY_ASSIGN(auto p, sections_product(op, self, weights, scales, group_size, widths, pitches, has_offsets));
  if (p.sections != 2 || widths[0] != widths[1]) return op.fail("widths must be two equal numbers");
  TRY(set_width(op, self, widths[0], out));
  p.is_gated = true;
  p.results[0] = op.write("result", out);
  return multiply(op, p);
}

constexpr std::string_view kGrouped = "self, weights, weight_scales, group_size, bias -> out";
constexpr std::string_view kJoined = "self, weights, weight_scales, group_size, widths, pitches, has_offsets -> out";

constexpr Op kLinearQ4Ops[] = {
    open<linear_q4gsw<false>>("et_vk.linear_q4gsw.default", kGrouped,
                              "any depth, width and group size that divides the depth; weights of any size"),
    open<linear_q4gsw<true>>("nibble.linear_q4gsw_offset", kGrouped, "made by a pass: an offset for each group"),
    open<linear_qcs4w>("et_vk.linear_qcs4w.default", "self, weight, scales -> out",
                       "a scale per row of the weight; any depth and width; weights of any size"),
    op<linear_dq8ca_q4gsw>(
        "et_vk.linear_dq8ca_q4gsw.default",
        "input, input_scales, input_zp, weights, weight_sums, weight_scales, group_size, bias -> out",
        "input rounded to 8 bits by row; any number of rows, depth, width and group size"),
    op<round_rows>("nibble.round_rows", "self, scales, zero_points -> out",
                   "made by a pass: the input of 8-bit linears"),
    op<linear_q4gsw_parts>("nibble.linear_q4gsw_parts", kJoined, "made by a pass: q, k and v"),
    op<linear_q4gsw_gated>("nibble.linear_q4gsw_gated", kJoined, "made by a pass: silu(gate) * up"),
};

}  // namespace

const Family kLinearQ4{"linear_q4", kLinearQ4Ops, {&kProduct, &kProductLoads, &kQ4X}};

}  // namespace nibble::ops
