// Linear layers with 4-bit weights [N, K / 2]: value = (nibble - 8) * scale of its group and row. Scales lie group by
// group, [K / group_size, N or more].
#include "ops/ops.hpp"
#include "ops/product.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

Status check_weight(const OpContext& op, const Tensor& weight, std::int64_t depth, std::int64_t group_size) {
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

Status check_scales(const OpContext& op, const Tensor& scales, std::int64_t groups, std::int64_t columns) {
  TRY(check_float(op, scales));
  if (scales.rank() != 2 || scales.shape[0] < groups || scales.shape[1] < columns) {
    return op.fail("{} has shape {}, but {} groups of {} columns need [{}, {}]", scales.arg, scales.shape, groups,
                   columns, groups, columns);
  }
  return {};
}

std::int64_t last_dim(const Tensor& t) { return t.rank() == 0 ? 0 : t.shape[t.rank() - 1]; }

/// What all 4-bit linears share; the sections, results and what is added are the op's.
Result<Product> q4_product(OpContext& op, const Tensor& x, const Tensor& weight, std::int64_t group_size) {
  const std::int64_t depth = last_dim(x);
  TRY_ASSIGN(const auto rows, rows_of(op, x, depth));
  TRY(check_weight(op, weight, depth, group_size));
  // Bytes of a shard are counted in 32 bits; the columns of all shards must be too.
  TRY_ASSIGN([[maybe_unused]] const auto columns, narrow(op, Size::from_signed(weight.shape[0]), weight.arg));
  Product p;
  p.weights = Weights::q4;
  p.params.rows = rows;
  p.params.depth = static_cast<std::uint32_t>(depth);
  p.params.weight_pitch = static_cast<std::uint32_t>(weight.shape[1]);
  p.params.group_size = static_cast<std::uint32_t>(group_size);
  return p;
}

/// One dispatch for each shard of the weight, which makes its own columns of the result.
Status multiply_shards(OpContext& op, Product p, const Tensor& weight, const Tensor& scales) {
  return op.for_each_row_range(weight.shape[0], {&weight, &scales}, [&](const RowRange& range) {
    const auto& [in_weight, in_scales, unused1, unused2] = range.shards;
    p.weight = op.read("weight", weight, in_weight);
    p.scales = op.read("scales", scales, in_scales);
    p.params.sections[0] = {.width = static_cast<std::uint32_t>(range.end - range.begin),
                            .weight_first = static_cast<std::uint32_t>(range.begin - in_weight.row_begin),
                            .scales_first = static_cast<std::uint32_t>(range.begin - in_scales.row_begin),
                            .scales_pitch = static_cast<std::uint32_t>(op.pitch(scales, in_scales)),
                            .result_first = static_cast<std::uint32_t>(range.begin),
                            .result_width = static_cast<std::uint32_t>(weight.shape[0])};
    return multiply(op, p);
  });
}

Status check_bias(OpContext& op, const std::optional<Tensor>& bias, std::int64_t columns) {
  if (!bias) return {};
  TRY(check_float(op, *bias));
  if (bias->numel() < columns) return op.fail("bias has shape {}, but there are {} columns", bias->shape, columns);
  return {};
}

/// Writes x rounded to 8 bits by row.
Status round_to(OpContext& op, const Tensor& x, const Tensor& scales, const Tensor& zero_points,
                const BufferArg& result) {
  TRY_ASSIGN(const auto rows, rows_of(op, x, last_dim(x)));
  TRY(check_float(op, scales));
  if (zero_points.dtype != DType::i8 && zero_points.dtype != DType::i32) {
    return op.fail("{} must be int8 or int32, but it is {}", zero_points.arg, zero_points.dtype);
  }
  if (scales.numel() < rows || zero_points.numel() < rows) {
    return op.fail("{} and {} have {} and {} elements, but there are {} rows", scales.arg, zero_points.arg,
                   scales.numel(), zero_points.numel(), rows);
  }
  struct Params {
    std::uint32_t count;
    std::uint32_t depth;
  };
  const Params params{static_cast<std::uint32_t>(x.numel()), static_cast<std::uint32_t>(last_dim(x))};
  const Kernel rounding{.shader = wgsl::round_rows,
                        .bind = {op.read("x", x), op.read("scale", scales), op.read("zero", zero_points), result},
                        .params = params_of(params),
                        .threads = Size::of(x.shape).div_up(4).unchecked()};
  Kernel small = rounding;
  small.threads = 1;
  TRY(op.prepare(small));
  return op.dispatch(rounding);
}

}  // namespace

Status linear_q4gsw(OpContext& op) {
  TRY_BIND((x, weight, scales, group_size, bias, out),
           op.args<Tensor, Tensor, Tensor, std::int64_t, std::optional<Tensor>, Out>(
               {"self", "weights", "weight_scales", "group_size", "bias", "out"}));
  TRY_ASSIGN(auto p, q4_product(op, x, weight, group_size));
  TRY(check_scales(op, scales, last_dim(x) / group_size, weight.shape[0]));
  TRY(check_bias(op, bias, weight.shape[0]));
  TRY(set_width(op, x, weight.shape[0], out));
  p.x = op.read("x", x);
  if (bias) p.addend = op.read("addend", *bias);
  p.results[0] = op.write("result", out);
  return multiply_shards(op, p, weight, scales);
}

Status linear_qcs4w(OpContext& op) {
  TRY_BIND((x, weight, scales, out), op.args<Tensor, Tensor, Tensor, Out>({"self", "weight", "scales", "out"}));
  const std::int64_t depth = last_dim(x);
  TRY_ASSIGN(auto p, q4_product(op, x, weight, std::max<std::int64_t>(1, depth)));
  TRY(check_float(op, scales));
  if (scales.numel() < weight.shape[0]) {
    return op.fail("scales has shape {}, but weight has {} rows", scales.shape, weight.shape[0]);
  }
  TRY(set_width(op, x, weight.shape[0], out));
  p.weights = Weights::q4_swapped;
  p.x = op.read("x", x);
  p.results[0] = op.write("result", out);
  return multiply_shards(op, p, weight, scales);
}

Status linear_dq8ca_q4gsw(OpContext& op) {
  TRY_BIND((x, input_scales, input_zp, weight, sums, scales, group_size, bias, out),
           op.args<Tensor, Tensor, Tensor, Tensor, Ignored, Tensor, std::int64_t, std::optional<Tensor>, Out>(
               {"input", "input_scales", "input_zp", "weights", "weight_sums", "weight_scales", "group_size", "bias",
                "out"}));
  TRY_ASSIGN(auto p, q4_product(op, x, weight, group_size));
  TRY(check_scales(op, scales, last_dim(x) / group_size, weight.shape[0]));
  TRY(check_bias(op, bias, weight.shape[0]));
  TRY(set_width(op, x, weight.shape[0], out));
  op.need_scratch(Size::bytes(op.bound(x), DType::f32));
  TRY(round_to(op, x, input_scales, input_zp, op.write_scratch("result", Elem::f32)));
  p.x = op.read_scratch("x", Elem::f32);
  if (bias) p.addend = op.read("addend", *bias);
  p.results[0] = op.write("result", out);
  return multiply_shards(op, p, weight, scales);
}

// --- made by graph passes ---

Status round_rows(OpContext& op) {
  TRY_BIND((x, scales, zero_points, out),
           op.args<Tensor, Tensor, Tensor, Out>({"self", "scales", "zero_points", "out"}));
  TRY(check_float(op, out));
  TRY(op.set_shape(out, x.shape));
  return round_to(op, x, scales, zero_points, op.write("result", out));
}

namespace {

/// Linears whose weights lie one after another, and so do their scales, each a block [groups, pitch].
Result<Product> sections_product(OpContext& op, const Tensor& x, const Tensor& weight, const Tensor& scales,
                                 std::int64_t group_size, const Ints& widths, const Ints& pitches) {
  TRY_ASSIGN(auto p, q4_product(op, x, weight, group_size));
  TRY(check_float(op, scales));
  if (widths.size() < 2 || widths.size() > p.params.sections.size() || pitches.size() != widths.size()) {
    return op.fail("widths and pitches have {} and {} items, but there must be 2 or 3 of each", widths.size(),
                   pitches.size());
  }
  const Size groups = Size::from_signed(last_dim(x) / group_size);
  Size columns = 0;
  Size scale = 0;
  p.sections = widths.size();
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] < 0 || widths[i] % 4 != 0 || pitches[i] < widths[i]) {
      return op.fail("a section is {} wide with scales of pitch {}, but widths are multiples of 4 and pitches no less",
                     widths[i], pitches[i]);
    }
    const auto width = static_cast<std::uint32_t>(widths[i]);
    p.params.sections[i] = {.width = width,
                            .weight_first = static_cast<std::uint32_t>(columns.unchecked()),
                            .scales_first = static_cast<std::uint32_t>(scale.unchecked()),
                            .scales_pitch = static_cast<std::uint32_t>(pitches[i]),
                            .result_width = width};
    columns = columns + Size::from_signed(widths[i]);
    scale = scale + groups * Size::from_signed(pitches[i]);
  }
  if (!columns.fits(static_cast<std::uint64_t>(weight.shape[0])) ||
      !scale.fits(static_cast<std::uint64_t>(scales.numel()))) {
    return op.fail("weights and weight_scales have shapes {} and {}, too small for {} columns with {} scales",
                   weight.shape, scales.shape, columns.unchecked(), scale.unchecked());
  }
  p.x = op.read("x", x);
  p.weight = op.read("weight", weight);
  p.scales = op.read("scales", scales);
  return p;
}

}  // namespace

Status linear_q4gsw_parts(OpContext& op) {
  TRY_BIND((x, weight, scales, group_size, widths, pitches, outs),
           op.args<Tensor, Tensor, Tensor, std::int64_t, Ints, Ints, Outs>(
               {"self", "weights", "weight_scales", "group_size", "widths", "pitches", "outs"}));
  TRY_ASSIGN(auto p, sections_product(op, x, weight, scales, group_size, widths, pitches));
  if (outs.size() != widths.size()) return op.fail("has {} outputs, but {} widths", outs.size(), widths.size());
  constexpr std::array<std::string_view, 3> kNames = {"result", "result1", "result2"};
  for (std::size_t i = 0; i < outs.size(); ++i) {
    if (!outs.has(i)) return op.fail("output {} is absent", i);
    Out out = outs[i];
    TRY(set_width(op, x, widths[i], out));
    p.results[i] = op.write(kNames[i], out);
  }
  return multiply(op, p);
}

Status linear_q4gsw_gated(OpContext& op) {
  TRY_BIND((x, weight, scales, group_size, widths, pitches, out),
           op.args<Tensor, Tensor, Tensor, std::int64_t, Ints, Ints, Out>(
               {"self", "weights", "weight_scales", "group_size", "widths", "pitches", "out"}));
  TRY_ASSIGN(auto p, sections_product(op, x, weight, scales, group_size, widths, pitches));
  if (p.sections != 2 || widths[0] != widths[1]) return op.fail("widths must be two equal numbers");
  TRY(set_width(op, x, widths[0], out));
  p.is_gated = true;
  p.results[0] = op.write("result", out);
  return multiply(op, p);
}

}  // namespace nibble::ops
