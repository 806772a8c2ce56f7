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
    {.name = "quads", .right = {.traits = kQuads}, .why = "four neighbours are one vec4 of one row"},
    {.name = "elements", .why = "right for all widths"},
};
const Choice kCopyChoice{"embedding", kCopies};

// The tile's columns are words of eight nibbles.
constexpr Variant kUnpacks[] = {
    {.name = "words4",
     .right = {.traits = kWords4},
     .best = {.adapters = Adapters::cpu},
     .tile = {.columns = 4},
     .shader = &wgsl::embedding_q4gsw,
     .why = "longer runs save index arithmetic: one load, one scale, eight stores measured fastest"},
    {.name = "word",
     .right = {.traits = kWords},
     .shader = &wgsl::embedding_q4gsw,
     .why = "neighbouring lanes store to neighbouring addresses, 32 bytes each"},
    {.name = "any", .shader = &wgsl::embedding_q4gsw_any, .why = "right for any even width and any group size"},
};
const Choice kUnpackChoice{"embedding_q4gsw", kUnpacks};

/// As in embedding_rows.wgsl.
struct EmbeddingParams {
  std::uint32_t ids = 0;
  std::uint32_t width = 0;
  std::uint32_t table_rows = 0;
  std::uint32_t row_begin = 0;
  std::uint32_t row_end = 0;
  std::uint32_t node = 0;
  std::uint32_t weight_first = 0;
  std::uint32_t scales_first = 0;
  std::uint32_t groups = 0;
  std::uint32_t group_size = 0;

  EmbeddingParams(const Lowering& op, const Tensor& indices, const Shape& table, const RowRange& range)
      : ids(narrow(indices.numel())),
        width(narrow(table[1])),
        table_rows(narrow(table[0])),
        row_begin(narrow(range.begin)),
        row_end(narrow(range.end)),
        node(op.node()),
        weight_first(narrow(range.shards[0].row_begin)),
        scales_first(narrow(range.shards[1].row_begin)) {}
};

Status set_shape(Lowering& op, const Tensor& ids, const Shape& table, Out& out) {
  if (table[0] > 0x7fffffff) return op.fail("weight has {} rows, more than int32 ids reach", table[0]);
  if (ids.dtype != DType::i32) return op.fail("{} must be int32, but it is {}", ids.arg, ids.dtype);
  Shape shape = ids.shape;
  if (!shape.push_back(table[1])) return op.fail("{} has {} dimensions, one too many", ids.arg, ids.rank());
  return op.set_shape(out, shape);
}

Status check_q4(const Lowering& op, const Tensor& weight, const Tensor& scales, std::int64_t group_size,
                const Out& out) {
  if (weight.dtype != DType::u8 || weight.rank() != 2) {
    return op.fail("weight must be uint8 of shape [rows, width / 2], but it is {} {}", weight.dtype, weight.shape);
  }
  if (scales.rank() != 2 || !is_float(scales.dtype)) {
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

Status embedding_q4gsw(Lowering& op, const Table& weight, const Table& scales, std::int64_t group_size, const Ids& ids,
                       bool is_linear, Out& out) {
  TRY(check_q4(op, weight, scales, group_size, out));
  const Shape table{weight.shape[0], 2 * weight.shape[1]};
  TRY(set_shape(op, ids, table, out));
  const auto are_whole = [&](std::int64_t count) { return table[1] % count == 0 && group_size % count == 0; };
  const bool varies = op.varies({&weight});
  const auto& variant =
      op.choose(kUnpackChoice, Facts{}.trait(kWords, are_whole(8), varies).trait(kWords4, are_whole(32), varies));
  const std::uint32_t words = variant.tile.columns;
  const bool is_any = variant.shader == &wgsl::embedding_q4gsw_any;
  const bool checks = op.check_on_device(ids, table[0]);
  const bool is_partial = op.is_sharded(weight) || op.is_sharded(scales);
  return op.for_each_row_range(table[0], {&weight, &scales}, [&](const RowRange& range) {
    EmbeddingParams params(op, ids, table, range);
    params.groups = narrow(scales.shape[1]);
    params.group_size = narrow(group_size);
    Kernel kernel{
        .shader = *variant.shader,
        .bind = {op.read("weight", weight, range.shards[0]).raw(words == 4 ? Elem::words4 : Elem::words),
                 op.read("scales", scales, range.shards[1]), op.read("ids", ids), op.write("result", out)},
        .params = params,
        .threads = is_any ? quads_of(out.shape) : Size::of(out.shape).unchecked() / (std::uint64_t{8} * words),
        .overrides = {{"LINEAR", is_linear ? 1.0 : 0.0}}};
    if (checks) kernel.bind.push_back(Lowering::fault());
    if (is_any) {
      kernel.overrides.push_back({"PARTIAL", is_partial ? 1.0 : 0.0});
    } else {
      kernel.overrides.push_back({"WORDS", static_cast<double>(words)});
      kernel.slots.push_back({"words", words == 4 ? wgsl::four_words : wgsl::one_word});
    }
    return op.dispatch(kernel);
  });
}

Status embedding(Lowering& op, const Table& weight, const Ids& ids, Ignored, Ignored, Ignored, Out& out) {
  if (weight.rank() != 2) return op.fail("weight must have 2 dimensions, but its shape is {}", weight.shape);
  if (weight.dtype != out.dtype) return op.fail("weight is {}, but the output is {}", weight.dtype, out.dtype);
  TRY(set_shape(op, ids, weight.shape, out));
  const auto& variant = op.choose(kCopyChoice, Facts{}.trait(kQuads, weight.shape[1] % 4 == 0, op.varies({&weight})));
  const bool checks = op.check_on_device(ids, weight.shape[0]);
  return op.for_each_row_range(weight.shape[0], {&weight}, [&](const RowRange& range) {
    Kernel kernel{.shader = wgsl::embedding,
                  .bind = {op.read("weight", weight, range.shards[0]), op.read("ids", ids), op.write("result", out)},
                  .params = EmbeddingParams(op, ids, weight.shape, range),
                  .threads = quads_of(out.shape),
                  .overrides = {{"ALIGNED", &variant == kCopies ? 1.0 : 0.0}}};
    if (checks) kernel.bind.push_back(Lowering::fault());
    return op.dispatch(kernel);
  });
}

constexpr Op kOps[] = {
    op<embedding_q4gsw>(
        "et_vk.embedding_q4gsw.default", "weight, weight_scales, group_size, indices, is_linear_weight -> out",
        "both nibble orders; any even width, any group size that divides it; any rank of ids; tables of any size"),
    op<embedding>("aten.embedding.default", "weight, indices, padding_idx, scale_grad_by_freq, sparse -> out",
                  "any rank of ids; tables of any size"),
};

constexpr const Choice* kChoices[] = {&kCopyChoice, &kUnpackChoice};

}  // namespace

const Family kEmbedding{"embedding", kOps, kChoices};

}  // namespace nibble::ops
