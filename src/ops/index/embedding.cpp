// Rows of a table, picked by ids. A table larger than a binding lies in shards: one dispatch per shard writes the rows
// it has and leaves the others alone.
#include "ops/checks.hpp"
#include "ops/families.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

constexpr std::uint32_t kQuads = 1;   // rows are whole vec4s
constexpr std::uint32_t kWords = 2;   // rows and groups are whole words of eight nibbles
constexpr std::uint32_t kWords4 = 4;  // and whole vec4s of words

constexpr Variant kCopies[] = {
    Variant("quads", {.traits = kQuads}, {}, {}, {}, "four neighbours are one vec4 of one row"),
    Variant("elements", {}, {}, {}, {}, "right for all widths"),
};
const Choice kCopyChoice{"embedding", kCopies, 0};

// The tile's columns are words of eight nibbles.
constexpr Variant kUnpacks[] = {
    Variant("words4", {.traits = kWords4}, {Adapters::cpu}, {1, 4}, &wgsl::embedding_q4gsw,
            "longer runs save index arithmetic: one load, one scale, eight stores measured fastest"),
    Variant("pairs", {.traits = kWords, .subgroups = true}, {Adapters::gpu}, {1, 1}, &wgsl::embedding_q4gsw_pairs,
            "as word, but two lanes share what they load and store 32 bytes at once"),
    Variant("word", {.traits = kWords}, {}, {1, 1}, &wgsl::embedding_q4gsw,
            "neighbouring lanes store to neighbouring addresses, 32 bytes each"),
    Variant("any", {}, {}, {}, &wgsl::embedding_q4gsw_any, "right for any even width and any group size"),
};
const Choice kUnpackChoice{"embedding_q4gsw", kUnpacks, 1e-6F};

wgsl::EmbeddingRowsParams params_of(const Lowering& op, const Tensor& ids, const Shape& table, const RowRange& range) {
  return {.id_count = narrow(ids.numel()),
          .width = narrow(table[1]),
          .table_rows = narrow(table[0]),
          .row_begin = narrow(range.begin),
          .row_end = narrow(range.end),
          .node = op.node(),
          .weight_first = narrow(range.shards[0].row_begin),
          .scales_first = narrow(range.shards[1].row_begin)};
}

Status set_shape(Lowering& op, const Tensor& ids, const Shape& table, Out& out) {
  if (table[0] > 0x7fffffff) return op.fail("weight has {} rows, more than int32 ids reach", table[0]);
  Shape shape = ids.shape;
  if (!shape.push_back(table[1])) return op.fail("{} has {} dimensions, one too many", ids.arg, ids.rank());
  return op.set_shape(out, shape);
}

Status check_q4(const Lowering& op, const Tensor& weight, const Tensor& scales, std::int64_t group_size) {
  if (weight.dtype != DType::u8 || weight.rank() != 2) {
    return op.fail("weight must be uint8 of shape [rows, width / 2], but it is {} {}", weight.dtype, weight.shape);
  }
  const std::int64_t rows = weight.shape[0];
  const std::int64_t width = 2 * weight.shape[1];
  if (group_size <= 0 || width % group_size != 0) {
    return op.fail("group_size is {}, which does not divide the width {}", group_size, width);
  }
  if (!(scales.shape == Shape{rows, width / group_size})) {
    return op.fail("weight_scales has shape {}, but {} rows of {} values in groups of {} need [{}, {}]", scales.shape,
                   rows, width, group_size, rows, width / group_size);
  }
  return {};
}

/// `zeros` has a zero point for each scale; without them they are 0.
Status look_up_q4(Lowering& op, const Table& weight, const Table& scales, const Table* zeros, std::int64_t group_size,
                  const Ids& ids, bool is_linear, Out& out) {
  TRY(check_q4(op, weight, scales, group_size));
  const Shape table{weight.shape[0], 2 * weight.shape[1]};
  TRY(set_shape(op, ids, table, out));
  const auto are_whole = [&](std::int64_t count) { return table[1] % count == 0 && group_size % count == 0; };
  const bool varies = op.varies({&weight});
  Facts facts{.rows = op.count(out)};
  if (!zeros) facts.trait(kWords, are_whole(8), varies).trait(kWords4, are_whole(32), varies);
  const auto& variant = op.choose(kUnpackChoice, facts);
  const std::uint32_t words = variant.tile.columns;
  const bool is_any = variant.shader == &wgsl::embedding_q4gsw_any;
  const bool checks = op.check_on_device(ids, weight);
  const Table& zero_table = zeros ? *zeros : scales;
  const bool is_partial = op.is_sharded(weight) || op.is_sharded(scales) || op.is_sharded(zero_table);
  return op.for_each_row_range(table[0], {&weight, &scales, &zero_table}, [&](const RowRange& range) {
    auto params = params_of(op, ids, table, range);
    params.zeros_first = narrow(range.shards[2].row_begin);
    params.groups = narrow(scales.shape[1]);
    params.group_size = narrow(group_size);
    Kernel kernel{
        .shader = *variant.shader,
        .bind = {op.read("weight", weight, range.shards[0]).raw(words == 4 ? Elem::words4 : Elem::words),
                 op.read("scales", scales, range.shards[1]), op.read("ids", ids), op.write("result", out)},
        .params = params,
        .threads = is_any ? quads_of(out.shape) : Size::of(out.shape).unchecked() / (std::uint64_t{8} * words),
        .overrides = {{"LINEAR", flag(is_linear)}}};
    if (checks) kernel.bind.push_back(Lowering::fault());
    if (is_any) {
      kernel.overrides.push_back({"PARTIAL", flag(is_partial)});
      kernel.slots.push_back({"zeros", zeros ? wgsl::zero_points : wgsl::no_zero_points});
      if (zeros) kernel.bind.push_back(op.read("zeros", *zeros, range.shards[2]));
    } else {
      kernel.overrides.push_back({"WORDS", static_cast<double>(words)});
      kernel.slots.push_back({"words", words == 4 ? wgsl::four_words : wgsl::one_word});
    }
    return op.dispatch(kernel);
  });
}

Status embedding_q4gsw(Lowering& op, const Table& weight, const Float<Table>& scales, std::int64_t group_size,
                       const Ids& ids, bool is_linear, Float<Out>& out) {
  return look_up_q4(op, weight, scales, nullptr, group_size, ids, is_linear, out);
}

/// The exporter's own op, which it leaves in programs whose width is no multiple of 32.
Status embedding_4bit(Lowering& op, const Table& weight, const Float<Table>& scales, const std::optional<Table>& zeros,
                      std::int64_t low, std::int64_t high, const Ids& ids, Ignored, Float<Out>& out) {
  if (low != -8 || high != 7) return op.fail("quant_min and quant_max must be -8 and 7, but are {} and {}", low, high);
  Table by_group = scales;
  if (scales.rank() == 1) by_group.shape.push_back(1);
  if (weight.rank() != 2 || by_group.rank() != 2 || by_group.shape[1] == 0) {
    return op.fail("weight and weight_scales have shapes {} and {}, but need 2 dimensions", weight.shape, scales.shape);
  }
  // Of a row's only group they may lack the dimension.
  if (zeros && (zeros->rank() == 0 || zeros->shape[0] != by_group.shape[0] || zeros->numel() != by_group.numel())) {
    return op.fail("weight_zero_points has shape {}, but weight_scales has {}", zeros->shape, scales.shape);
  }
  return look_up_q4(op, weight, by_group, zeros ? &*zeros : nullptr, 2 * weight.shape[1] / by_group.shape[1], ids,
                    false, out);
}

Status embedding(Lowering& op, const Table& weight, const Ids& ids, Ignored, Ignored, Ignored, Out& out) {
  if (weight.rank() != 2) return op.fail("weight must have 2 dimensions, but its shape is {}", weight.shape);
  if (weight.dtype != out.dtype) return op.fail("weight is {}, but the output is {}", weight.dtype, out.dtype);
  TRY(set_shape(op, ids, weight.shape, out));
  const auto& variant = op.choose(kCopyChoice, Facts{}.trait(kQuads, weight.shape[1] % 4 == 0, op.varies({&weight})));
  const bool checks = op.check_on_device(ids, weight);
  return op.for_each_row_range(weight.shape[0], {&weight}, [&](const RowRange& range) {
    Kernel kernel{.shader = wgsl::embedding,
                  .bind = {op.read("weight", weight, range.shards[0]), op.read("ids", ids), op.write("result", out)},
                  .params = params_of(op, ids, weight.shape, range),
                  .threads = quads_of(out.shape),
                  .overrides = {{"ALIGNED", flag(&variant == kCopies)}}};
    if (checks) kernel.bind.push_back(Lowering::fault());
    return op.dispatch(kernel);
  });
}

constexpr Op kEmbeddingOps[] = {
    op<embedding_q4gsw>(
        "et_vk.embedding_q4gsw.default", "weight, weight_scales, group_size, indices, is_linear_weight -> out",
        "both nibble orders; any even width, any group size that divides it; any rank of ids; tables of any size"),
    op<embedding_4bit>(
        "quantized_decomposed.embedding_4bit.dtype",
        "weight, weight_scales, weight_zero_points, weight_quant_min, weight_quant_max, indices, dtype -> out",
        "with and without zero points"),
    op<embedding>("aten.embedding.default", "weight, indices, padding_idx, scale_grad_by_freq, sparse -> out",
                  "any rank of ids; tables of any size"),
};

}  // namespace

const Family kEmbedding{"embedding", kEmbeddingOps, {&kCopyChoice, &kUnpackChoice}};

}  // namespace nibble::ops
