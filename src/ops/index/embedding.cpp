// Rows of a table, picked by ids. A table larger than a binding lies in shards: one dispatch per shard writes the rows
// it has and leaves the others alone.
#include "ops/checks.hpp"
#include "ops/ops.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

// The first fields of both kernels' parameters.
struct Rows {
  std::uint32_t ids = 0;         ///< how many
  std::uint32_t width = 0;       ///< elements in an output row
  std::uint32_t table_rows = 0;  ///< of the whole table
  std::uint32_t row_begin = 0;   ///< of this dispatch
  std::uint32_t row_end = 0;
  std::uint32_t node = 0;
};

Rows rows_of(const OpContext& op, const Tensor& ids, std::int64_t width, std::int64_t table_rows,
             const RowRange& range) {
  return {static_cast<std::uint32_t>(ids.numel()), static_cast<std::uint32_t>(width),
          static_cast<std::uint32_t>(table_rows),  static_cast<std::uint32_t>(range.begin),
          static_cast<std::uint32_t>(range.end),   op.node()};
}

Status gather_shape(OpContext& op, const Tensor& ids, std::int64_t rows, std::int64_t width, Out& out) {
  if (rows > 0x7fffffff) return op.fail("weight has {} rows, more than int32 ids reach", rows);
  if (ids.dtype != DType::i32) return op.fail("{} must be int32, but it is {}", ids.arg, ids.dtype);
  Shape shape = ids.shape;
  if (!shape.push_back(width)) return op.fail("{} has {} dimensions, one too many", ids.arg, ids.rank());
  return op.set_shape(out, shape);
}

struct Q4Params {
  Rows rows;
  std::uint32_t groups = 0;        ///< scales in a row
  std::uint32_t group_size = 0;    ///< elements that share a scale
  std::uint32_t weight_first = 0;  ///< the row that each buffer begins with
  std::uint32_t scales_first = 0;
};

// How many words of eight nibbles a thread unpacks. A GPU wants neighbouring lanes to store to neighbouring addresses:
// one word is 32 bytes of output for each lane. A CPU adapter saves index arithmetic with longer runs; there four words
// (one vec4 load, one scale, eight vec4 stores) measured fastest.
std::uint64_t words_per_thread(const OpContext& op, std::int64_t width, std::int64_t group_size) {
  return op.profile().kind == AdapterKind::cpu && width % 32 == 0 && group_size % 32 == 0 ? 4 : 1;
}

Status check_q4(OpContext& op, const Tensor& weight, const Tensor& scales, std::int64_t group_size, const Out& out) {
  if (weight.dtype != DType::u8 || weight.rank() != 2) {
    return op.fail("weight must be uint8 of shape [rows, width / 2], but it is {} {}", weight.dtype, weight.shape);
  }
  if (scales.rank() != 2 || (scales.dtype != DType::f32 && scales.dtype != DType::f16)) {
    return op.fail("weight_scales must be float32 or float16 of shape [rows, groups], but it is {} {}", scales.dtype,
                   scales.shape);
  }
  const std::int64_t rows = weight.shape[0];
  const std::int64_t width = 2 * weight.shape[1];
  if (group_size <= 0 || width % group_size != 0) {
    return op.fail("group_size is {}, which does not divide the width {}", group_size, width);
  }
  if (scales.shape[0] != rows || scales.shape[1] != width / group_size) {
    return op.fail("weight_scales has shape {}, but {} rows of {} values in groups of {} need [{}, {}]", scales.shape,
                   rows, width, group_size, rows, width / group_size);
  }
  return check_float(op, out);
}

}  // namespace

Status embedding_q4gsw(OpContext& op) {
  TRY_BIND((weight, scales, group_size, ids, is_linear, out),
           op.args<Tensor, Tensor, std::int64_t, Tensor, bool, Out>(
               {"weight", "weight_scales", "group_size", "indices", "is_linear_weight", "out"}));
  TRY(check_q4(op, weight, scales, group_size, out));
  const std::int64_t rows = weight.shape[0];
  const std::int64_t width = 2 * weight.shape[1];
  TRY(gather_shape(op, ids, rows, width, out));

  // The fast kernel reads whole words of one group; the other one takes any even width and any group size.
  const bool is_fast = width % 8 == 0 && group_size % 8 == 0;
  const auto words = words_per_thread(op, width, group_size);
  const bool checks = op.check_on_device(ids, rows);
  const bool is_partial = op.is_sharded(weight) || op.is_sharded(scales);
  return op.for_each_row_range(rows, {&weight, &scales}, [&](const RowRange& range) {
    const auto& [in_weight, in_scales, unused1, unused2] = range.shards;
    const Q4Params params{.rows = rows_of(op, ids, width, rows, range),
                          .groups = static_cast<std::uint32_t>(scales.shape[1]),
                          .group_size = static_cast<std::uint32_t>(group_size),
                          .weight_first = static_cast<std::uint32_t>(in_weight.row_begin),
                          .scales_first = static_cast<std::uint32_t>(in_scales.row_begin)};
    Bindings bind{op.read("weight", weight, in_weight).raw(is_fast && words == 4 ? Elem::words4 : Elem::words),
                  op.read("scales", scales, in_scales), op.read("ids", ids), op.write("result", out)};
    if (checks) bind.add(op.fault());
    if (!is_fast) {
      return op.dispatch({.shader = wgsl::embedding_q4gsw_any,
                          .bind = bind,
                          .params = params_of(params),
                          .threads = Size::of(out.shape).div_up(4).unchecked(),
                          .overrides = {{"LINEAR", is_linear ? 1.0 : 0.0}, {"PARTIAL", is_partial ? 1.0 : 0.0}}});
    }
    return op.dispatch(
        {.shader = wgsl::embedding_q4gsw,
         .bind = bind,
         .params = params_of(params),
         .threads = Size::of(out.shape).unchecked() / (8 * words),
         .overrides = {{"LINEAR", is_linear ? 1.0 : 0.0}, {"WORDS", static_cast<double>(words)}},
         .lines = {words == 4 ? "fn words_at(i: u32) -> vec4<u32> { return weight[i]; }"
                              : "fn words_at(i: u32) -> vec4<u32> { return vec4<u32>(weight[i], 0u, 0u, 0u); }"}});
  });
}

Status embedding(OpContext& op) {
  TRY_BIND((weight, ids, padding, scale_grad, sparse, out),
           op.args<Tensor, Tensor, Ignored, Ignored, Ignored, Out>(
               {"weight", "indices", "padding_idx", "scale_grad_by_freq", "sparse", "out"}));
  if (weight.rank() != 2) return op.fail("weight must have 2 dimensions, but its shape is {}", weight.shape);
  if (weight.dtype != out.dtype) return op.fail("weight is {}, but the output is {}", weight.dtype, out.dtype);
  const std::int64_t rows = weight.shape[0];
  const std::int64_t width = weight.shape[1];
  TRY(gather_shape(op, ids, rows, width, out));

  struct Params {
    Rows rows;
    std::uint32_t weight_first;
  };
  const bool checks = op.check_on_device(ids, rows);
  return op.for_each_row_range(rows, {&weight}, [&](const RowRange& range) {
    const Params params{rows_of(op, ids, width, rows, range), static_cast<std::uint32_t>(range.shards[0].row_begin)};
    Bindings bind{op.read("weight", weight, range.shards[0]), op.read("ids", ids), op.write("result", out)};
    if (checks) bind.add(op.fault());
    return op.dispatch({.shader = wgsl::embedding,
                        .bind = bind,
                        .params = params_of(params),
                        .threads = Size::of(out.shape).div_up(4).unchecked(),
                        .overrides = {{"ALIGNED", width % 4 == 0 ? 1.0 : 0.0}}});
  });
}

}  // namespace nibble::ops
