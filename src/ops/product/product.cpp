#include "ops/product.hpp"

#include "wgsl.hpp"

namespace nibble::ops {
namespace {

// X is x at four k, or sums at four columns: of one row, or of four.
constexpr std::string_view kOneRow =
    "alias X = vec4<f32>;\n"
    "const ROWS = 1u;\n"
    "fn x_rows(p: Place, k: u32) -> X { return quad(p.batch, p.row, k); }\n"
    "fn write_rows(p: Place, column: u32, gates: X, sums: X) { write(p, p.row, column, gates, sums); }\n";
constexpr std::string_view kFourRows =
    "alias X = mat4x4<f32>;\n"
    "const ROWS = 4u;\n"
    "fn x_rows(p: Place, k: u32) -> X {\n"
    "  return X(quad(p.batch, p.row, k), quad(p.batch, p.row + 1u, k), quad(p.batch, p.row + 2u, k),\n"
    "           quad(p.batch, p.row + 3u, k));\n"
    "}\n"
    "fn write_rows(p: Place, column: u32, gates: X, sums: X) {\n"
    "  write(p, p.row, column, gates[0], sums[0]);\n"
    "  write(p, p.row + 1u, column, gates[1], sums[1]);\n"
    "  write(p, p.row + 2u, column, gates[2], sums[2]);\n"
    "  write(p, p.row + 3u, column, gates[3], sums[3]);\n"
    "}\n";

// finish() works on four columns of one row; params.alpha is 1 where nobody set it.
constexpr std::string_view kScale =
    "fn finish(v: vec4<f32>, row: u32, column: u32) -> vec4<f32> { return params.alpha * v; }";
constexpr std::string_view kAddend =
    "fn finish(v: vec4<f32>, row: u32, column: u32) -> vec4<f32> {\n"
    "  let i = row * params.addend_row + column * params.addend_column;\n"
    "  let step = params.addend_column;\n"
    "  let addend = vec4<f32>(load_addend(i), load_addend(i + step), load_addend(i + 2u * step),\n"
    "                         load_addend(i + 3u * step));\n"
    "  return params.alpha * v + params.beta * addend;\n"
    "}";

// put() writes up to four elements from element i of a section's result on.
constexpr std::string_view kPutQuads =
    "fn put(section: u32, i: u32, v: vec4<f32>, count: u32) { store4_result(i >> 2u, v); }";
constexpr std::string_view kPutElements =
    "fn put(section: u32, i: u32, v: vec4<f32>, count: u32) {\n"
    "  store_result(i, v.x);\n"
    "  if (count > 1u) { store_result(i + 1u, v.y); }\n"
    "  if (count > 2u) { store_result(i + 2u, v.z); }\n"
    "  if (count > 3u) { store_result(i + 3u, v.w); }\n"
    "}";
constexpr std::string_view kPutTwo =
    "fn put(section: u32, i: u32, v: vec4<f32>, count: u32) {\n"
    "  if (section == 0u) { store4_result(i >> 2u, v); } else { store4_result1(i >> 2u, v); }\n"
    "}";
constexpr std::string_view kPutThree =
    "fn put(section: u32, i: u32, v: vec4<f32>, count: u32) {\n"
    "  if (section == 0u) { store4_result(i >> 2u, v); }\n"
    "  if (section == 1u) { store4_result1(i >> 2u, v); }\n"
    "  if (section == 2u) { store4_result2(i >> 2u, v); }\n"
    "}";

constexpr std::string_view kPutNothing = "fn put(section: u32, i: u32, v: vec4<f32>, count: u32) {}";

// What a lane adds at a time where weights are not read by whole words.
constexpr std::string_view kQuadChunks =
    "const CHUNK = 4u;\n"
    "fn chunk_sum(p: Place, k: u32) -> vec4<f32> {\n"
    "  return weights_at(p.batch, p.section, p.column, k) * x_quad(p.batch, p.row, k);\n"
    "}";

bool is_q4(Weights w) { return w == Weights::q4 || w == Weights::q4_swapped; }

std::string_view loader(Weights w) {
  switch (w) {
    case Weights::rows: return wgsl::weights_rows.body;
    case Weights::columns: return wgsl::weights_columns.body;
    case Weights::q4:
    case Weights::q4_swapped: return wgsl::weights_q4.body;
  }
  return "";
}

/// The weights are read by whole words: 32 nibbles, all of one group.
bool has_whole_words(const Product& p) {
  return is_q4(p.weights) && p.params.depth % 32 == 0 && p.params.group_size % 32 == 0 &&
         2 * p.params.weight_pitch == p.params.depth;
}

/// Four neighbouring weights are loaded at once.
bool has_weight_quads(const Product& p) {
  if (is_q4(p.weights)) {
    return p.params.weight_pitch % 4 == 0 && p.params.depth % 4 == 0 && p.params.group_size % 4 == 0;
  }
  return p.params.weight_pitch % 4 == 0 && p.params.weight_batch % 4 == 0;
}

bool has_scale_quads(const Product& p) {
  for (std::size_t s = 0; s < p.sections; ++s) {
    const auto& section = p.params.sections[s];
    if (section.scales_first % 4 != 0 || section.scales_pitch % 4 != 0) return false;
  }
  return true;
}

/// Tiles of rows and columns; how many threads or workgroups that is.
std::uint64_t set_tiles(Product& product, std::uint32_t rows, std::uint32_t columns) {
  auto& p = product.params;
  p.row_tiles = (p.rows + rows - 1) / rows;
  p.column_tiles = 0;
  for (std::size_t s = 0; s < p.sections.size(); ++s) {
    // Both halves of a gated product are made by one thread.
    if (s < (product.is_gated ? 1 : product.sections)) {
      p.column_tiles += (p.sections[s].width + columns - 1) / columns;
    }
    p.sections[s].tiles_end = p.column_tiles;
  }
  return (Size(p.row_tiles) * p.column_tiles * p.batches).unchecked();
}

bool has_whole_quads(const Product& p) {
  for (std::size_t s = 0; s < p.sections; ++s) {
    const auto& section = p.params.sections[s];
    if (section.result_first % 4 != 0 || section.result_width % 4 != 0) return false;
  }
  return true;
}

/// Up to how many rows the kernels for few are better. On a CPU adapter linear_q4's tile of 8 rows takes nearly three
/// times as long as one row, product's tile of 4 rows not twice as long. On a GPU the tile's 32 rows are mostly idle
/// then, and few rows are read from cache, again and again.
std::uint32_t few_rows(const OpContext& op, const Product& p) {
  if (op.profile().kind != AdapterKind::cpu) return 4;
  return has_whole_words(p) ? 2 : 1;
}

// Which kernel, and why:
//   flat  any adapter: float16 whose rows are no whole quads, where one thread must make what lies in a word
//   linear_q4, product
//         CPU adapters: no barrier, and as much in registers as there is to share, as each lane's loads are what costs.
//         A workgroup is one vector of lanes, so that few rows still make work for all cores
//   row   GPUs, few rows: the weights are read once, in runs of memory, by as many lanes as there are
//   tile  GPUs, many rows: weights and x are shared through workgroup memory
Status emit(OpContext& op, Product p, bool only_prepare) {
  const auto send = [&](const Kernel& kernel) { return only_prepare ? op.prepare(kernel) : op.dispatch(kernel); };
  const bool by_quads = has_whole_quads(p);
  const bool is_half = p.results[0]->format.elem == Elem::f16;
  const bool is_flat = is_half && !by_quads;
  const bool is_cpu = op.profile().kind == AdapterKind::cpu;
  const bool is_few = p.params.rows <= few_rows(op, p);
  const bool by_words = has_whole_words(p) && !is_flat && (is_cpu || is_few);
  Bindings bind{p.x, is_q4(p.weights) ? p.weight.raw(by_words ? Elem::words4 : Elem::words) : p.weight};
  if (p.scales) bind.add(*p.scales);
  if (p.addend) bind.add(*p.addend);
  for (const auto& result : p.results) {
    if (result) bind.add(by_quads || is_flat ? *result : result->lanes(1));
  }
  const std::string_view common = wgsl::product_params.body;
  const std::string_view weights = by_words ? wgsl::chunk_q4.body : loader(p.weights);
  const std::string_view finish = p.addend ? kAddend : kScale;
  const std::string_view put = p.results[2] ? kPutThree : p.results[1] ? kPutTwo : by_quads ? kPutQuads : kPutElements;
  const OverrideValue x_aligned{"X_ALIGNED", p.params.depth % 4 == 0 ? 1.0 : 0.0};
  // A thread of the flat kernel begins at any column.
  const bool any_column = is_flat && p.weights == Weights::columns;
  const OverrideValue quads{"WEIGHT_QUADS", has_weight_quads(p) && !any_column ? 1.0 : 0.0};
  const OverrideValue swapped{"SWAPPED", p.weights == Weights::q4_swapped ? 1.0 : 0.0};
  const OverrideValue gated{"GATED", p.is_gated ? 1.0 : 0.0};

  if (is_flat) {
    const Size elements = Size(p.params.batches) * p.params.rows * p.params.sections[0].result_width;
    return send({.shader = wgsl::product_flat,
                 .bind = bind,
                 .params = params_of(p.params),
                 .threads = only_prepare ? 1 : elements.div_up(4).unchecked(),
                 .overrides = {x_aligned, quads, swapped},
                 .lines = {common, weights, finish, kPutNothing}});
  }
  const std::string_view rows = is_few ? kOneRow : kFourRows;
  if (is_cpu && by_words) {
    set_tiles(p, is_few ? 1 : 8, is_few ? 16 : 32);
    // A workgroup has one tile of rows: its threads share x.
    const auto lanes = op.profile().vector_lanes();
    const Size groups = Size(p.params.column_tiles).div_up(lanes) * p.params.row_tiles * p.params.batches;
    return send(
        {.shader = wgsl::linear_q4,
         .bind = bind,
         .params = params_of(p.params),
         .threads = (groups * lanes).unchecked(),
         .workgroup = lanes,
         .whole_groups = true,
         .overrides = {x_aligned,
                       swapped,
                       gated,
                       {"WIDE", is_few ? 0.0 : 1.0},
                       {"SCALES_ALIGNED", has_scale_quads(p) ? 1.0 : 0.0}},
         .lines = {common, rows, is_few ? wgsl::linear_q4_row.body : wgsl::linear_q4_rows.body,
                   op.profile().subgroups ? wgsl::linear_q4_share.body : wgsl::linear_q4_load.body, finish, put}});
  }
  if (is_cpu) {
    return send({.shader = wgsl::product,
                 .bind = bind,
                 .params = params_of(p.params),
                 .threads = set_tiles(p, is_few ? 1 : 4, 16),
                 .workgroup = 8,
                 .whole_groups = true,
                 .overrides = {x_aligned, quads, swapped, gated},
                 .lines = {common, weights, rows, finish, put}});
  }
  if (is_few) {
    return send({.shader = wgsl::product_row,
                 .bind = bind,
                 .params = params_of(p.params),
                 .threads = (Size(set_tiles(p, 1, 4)) * 64).unchecked(),
                 .workgroup = 64,
                 .whole_groups = true,
                 .overrides = {x_aligned, quads, swapped, gated},
                 .lines = {common, weights, by_words ? "" : kQuadChunks, finish, put}});
  }
  return send({.shader = wgsl::product_tile,
               .bind = bind,
               .params = params_of(p.params),
               .threads = (Size(set_tiles(p, 32, 64)) * 128).unchecked(),
               .workgroup = 128,
               .whole_groups = true,
               .overrides = {x_aligned, quads, swapped, gated},
               .lines = {common, weights, finish, put}});
}

}  // namespace

Status multiply(OpContext& op, const Product& p) {
  // A call with fewer rows than the largest may want the other kernel: it is compiled at load, too.
  if (p.params.rows > few_rows(op, p)) {
    Product few = p;
    few.params.rows = 1;
    TRY(emit(op, few, true));
  }
  return emit(op, p, false);
}

Result<std::uint32_t> rows_of(OpContext& op, const Tensor& x, std::int64_t depth) {
  TRY(check_float(op, x));
  if (x.rank() == 0 || x.shape[x.rank() - 1] != depth) {
    return op.fail("{} has shape {}, but its last dimension must be {}", x.arg, x.shape, depth);
  }
  Size rows = 1;
  for (std::size_t i = 0; i + 1 < x.rank(); ++i) rows = rows * Size::from_signed(x.shape[i]);
  return narrow(op, rows, x.arg);
}

Status set_width(OpContext& op, const Tensor& x, std::int64_t width, Out& out) {
  TRY(check_float(op, out));
  Shape shape = x.shape;
  shape[shape.rank() - 1] = width;
  return op.set_shape(out, shape);
}

Result<std::uint32_t> narrow(const OpContext& op, Size count, std::string_view what) {
  if (!count.fits_u32()) return op.fail("{} has more rows or columns than 32 bits can count", what);
  return static_cast<std::uint32_t>(count.unchecked());
}

}  // namespace nibble::ops
