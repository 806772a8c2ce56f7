#include "ops/product/product.hpp"

#include <algorithm>

namespace nibble::ops {
namespace {

constexpr std::uint32_t kWords = 1;  // 4-bit weights are read by whole words: 32 nibbles, all of one group
constexpr std::uint32_t kFlat = 2;   // float16 rows that are no whole quads: one thread must make what lies in a word
constexpr std::uint32_t kDeep = 4;   // one thread may not go along a whole row of x
constexpr std::uint32_t kSections = 8;        // several sections
constexpr std::uint32_t kPixels = 16;         // the depth is in runs
constexpr std::uint32_t kLong = 32;           // the depth is worth a split where there are few columns
constexpr std::uint32_t kWhole = 64;          // no split: sizes vary, or the working memory has other uses
constexpr std::uint32_t kShortVectors = 128;  // the device runs four lanes at a time
constexpr std::uint32_t kAligned = 1;
constexpr std::uint32_t kDeviceHas = 1;  // the instructions of the variant
constexpr When kByWords{.traits = kWords, .none_of = kFlat};
constexpr When kByRows{.none_of = kFlat | kDeep};
constexpr When kOneRow{.adapters = Adapters::gpu, .max_rows = 1};
constexpr When kFewRows{.adapters = Adapters::gpu, .max_rows = 4};
constexpr When kNarrowRow{.adapters = Adapters::gpu, .max_rows = 1, .max_width = 256, .traits = kLong};
constexpr When kNarrow{.adapters = Adapters::gpu, .max_width = 256, .traits = kLong};
constexpr When kByTeams{.none_of = kFlat | kPixels};
constexpr When kSplitRows{.max_rows = 4, .none_of = kFlat | kPixels | kWhole};
constexpr When kBySubgroups{.none_of = kFlat | kPixels | kDeep, .subgroups = true};

// On a CPU adapter there is no barrier, and as much in registers as there is to share, as each lane's loads are what
// costs; a workgroup is one vector of lanes, so that few rows still make work for all cores. There linear_q4's tile of
// 8 rows takes nearly three times as long as one row, product's tile of 4 rows not twice as long. On a GPU the tile's
// 32 rows are mostly idle with few rows, and those are read from cache, again and again.
constexpr Variant kProductVariants[] = {
    Variant("words_row", kByWords, {.adapters = Adapters::cpu, .max_rows = 2}, {1, 16, Tile::kVector}, &wgsl::linear_q4,
            "x is loaded once for 16 columns, which each lane unpacks word by word"),
    Variant("words_half_tile", kByWords, {.adapters = Adapters::cpu, .traits = kShortVectors}, {8, 16, Tile::kVector},
            &wgsl::linear_q4, "as words_tile; there it is as fast, and compiled in half the time"),
    Variant("words_tile", kByWords, {Adapters::cpu}, {8, 32, Tile::kVector}, &wgsl::linear_q4,
            "a weight is unpacked once for 8 rows, x loaded once for 32 columns"),
    Variant("registers_row", kByRows, {.adapters = Adapters::cpu, .max_rows = 1}, {1, 16, 8}, &wgsl::product,
            "x is loaded once for 16 columns"),
    Variant("registers", kByRows, {Adapters::cpu}, {4, 16, 8}, &wgsl::product, "20 loads for 256 products, no barrier"),
    Variant("split_row", kSplitRows, kNarrowRow, {1, 4, 64, 0, 512}, &wgsl::product_row, "workgroups share the depth"),
    Variant("split_rows", kSplitRows, kNarrow, {4, 4, 64, 0, 512}, &wgsl::product_row, "workgroups share the depth"),
    Variant("wide_row", kByTeams, {.adapters = Adapters::gpu, .max_rows = 1, .max_width = 512}, {1, 4, 256},
            &wgsl::product_row, "few columns: 256 lanes split the depth of four"),
    Variant("subgroup_row", kBySubgroups, kOneRow, {1, 4, 64}, &wgsl::product_row, "as row, but without a barrier"),
    Variant("subgroup_rows", kBySubgroups, kFewRows, {4, 4, 64}, &wgsl::product_row, "as rows, but without a barrier"),
    Variant("row", kByTeams, kOneRow, {1, 4, 64}, &wgsl::product_row, "weights are read once, in runs of memory"),
    Variant("rows", kByTeams, kFewRows, {4, 4, 64}, &wgsl::product_row, "as row, and 4 rows share the weights"),
    Variant("split_tile", {.max_rows = 64, .none_of = kFlat | kDeep | kWhole},
            {.adapters = Adapters::gpu, .max_width = 1024, .traits = kLong}, {32, 64, 128, 12288, 256},
            &wgsl::product_tile, "as tile, and workgroups share the depth"),
    Variant("tile_128", kByRows, {.adapters = Adapters::gpu, .min_rows = 512, .min_width = 2048}, {128, 64, 128, 24576},
            &wgsl::product_tile, "as tile, 8 by 8 a thread: two loads for 32 products"),
    Variant("tile_64", kByRows, {.adapters = Adapters::gpu, .min_rows = 256, .min_width = 1024}, {64, 64, 128, 16384},
            &wgsl::product_tile, "as tile, 8 by 4 a thread"),
    Variant("tile", kByRows, {Adapters::gpu}, {32, 64, 128, 12288}, &wgsl::product_tile, "a workgroup shares operands"),
    Variant("flat", {.none_of = kSections | kDeep}, {}, {}, &wgsl::product_flat, "four neighbours of any rows"),
};

constexpr Variant kLoads[] = {
    Variant("quads", {.traits = kAligned}, {}, {}, {}, "rows of all operands are whole vec4s"),
    Variant("elements", {}, {}, {}, {}, "right for all sizes"),
};

constexpr Variant kQ4XVariants[] = {
    Variant("share", {.traits = kDeviceHas}, {}, {}, &wgsl::linear_q4_share, "four threads load x once"),
    Variant("load", {}, {}, {}, &wgsl::linear_q4_load, "right without subgroups"),
};

constexpr Variant kDotVariants[] = {
    Variant("words", {.traits = kDeviceHas}, {Adapters::gpu}, {}, &wgsl::dots_of_words, "four multiplications at once"),
    Variant("floats", {}, {}, {}, &wgsl::dots_of_floats, "CPU adapters multiply floats as fast, and unpack bytes once"),
};

bool is_q4(Weights w) { return w == Weights::q4 || w == Weights::q4_swapped; }
bool has_nibbles(Weights w) { return is_q4(w) || w == Weights::q4_columns; }

constexpr const Shader* kLoaders[] = {&wgsl::weights_rows, &wgsl::weights_columns, &wgsl::weights_pixels,
                                      &wgsl::weights_q4,   &wgsl::weights_q4,      &wgsl::weights_q4_columns};

bool has_whole_words(const Product& p) {
  return is_q4(p.weights) && p.params.depth % 32 == 0 && p.params.group_size % 32 == 0 &&
         2 * p.params.weight_pitch == p.params.depth;
}

/// What may be loaded or stored four at a time.
struct Quads {
  bool x, weight, scales, results;
};

Quads quads_in(const Product& p) {
  const auto& params = p.params;
  Quads quads{.x = params.depth % 4 == 0, .weight = params.weight_pitch % 4 == 0, .scales = true, .results = true};
  quads.weight = quads.weight && (is_q4(p.weights) ? params.depth % 4 == 0 && params.group_size % 4 == 0
                                                   : params.weight_batch % 4 == 0);
  for (std::size_t s = 0; s < p.sections; ++s) {
    const auto& section = params.sections[s];
    quads.scales = quads.scales && section.scales_first % 4 == 0 && section.scales_pitch % 4 == 0;
    quads.results = quads.results && section.result_first % 4 == 0 && section.result_width % 4 == 0;
  }
  return quads;
}

Quads choose_quads(Lowering& op, const Product& p) {
  const Quads now = quads_in(p);
  if (!p.varies) return now;
  const bool all = (now.x || p.is_filter) && now.weight && now.scales && now.results;
  const bool by_quads = &op.choose(kProductLoads, Facts{}.trait(kAligned, all, true)) == kLoads;
  return {p.is_filter ? now.x : by_quads, by_quads, by_quads, by_quads};
}

/// Tiles of rows and columns; how many threads or workgroups that is.
std::uint64_t set_tiles(Product& product, const Tile& tile) {
  auto& p = product.params;
  p.row_tiles = (p.rows + tile.rows - 1) / tile.rows;
  std::uint32_t end = 0;
  for (std::size_t s = 0; s < p.sections.size(); ++s) {
    // Both halves of a gated product are made by one thread.
    if (s < (product.is_gated ? 1 : product.sections)) end += (p.sections[s].width + tile.columns - 1) / tile.columns;
    p.sections[s].tiles_end = end;
  }
  return (Size(p.row_tiles) * end * p.batches).unchecked();
}

}  // namespace

const Choice kProduct{.name = "product", .variants = kProductVariants, .in_halves = true};
const Choice kProductLoads{"product_loads", kLoads};
const Choice kQ4X{"q4_x", kQ4XVariants};
const Choice kDots{"dots", kDotVariants};

const Shader& choose_dots(Lowering& op) {
  return *op.choose(kDots, Facts{}.trait(kDeviceHas, op.profile().packed_dot, false)).shader;
}

Status multiply(Lowering& op, Product p) {
  if (p.params.x_batches == 0) p.params.x_batches = p.params.batches;
  if (p.params.runs == 0) p.params.run = p.params.depth;
  p.params.runs = std::max(1U, p.params.runs);
  const Quads quads = choose_quads(op, p);
  const bool has_words = has_whole_words(p);
  Facts facts{.rows = p.rows, .width = {p.params.sections[0].width}};
  if (p.varies) facts.width = {facts.width.now, 0, When::kAny};
  facts.trait(kWords, has_words, p.varies && is_q4(p.weights));
  facts.trait(kFlat, p.results[0]->format.elem == Elem::f16 && !quads.results, false);
  // No kernel takes more rounds than the depth, but a gated product does all twice.
  const auto is_deep = [&](std::uint64_t depth) { return depth * (p.is_gated ? 2 : 1) > op.profile().max_rounds(); };
  facts.trait(kDeep, is_deep(p.params.depth), p.varies && is_deep(p.max_depth));
  facts.trait(kSections, p.sections > 1, false);
  facts.trait(kPixels, p.weights == Weights::pixels, false);
  facts.trait(kLong, p.params.depth >= 2048, p.varies);
  constexpr auto kScratch = BufferRef::Kind::scratch;
  facts.trait(kWhole, p.varies || p.x.buffer.kind == kScratch || p.weight.buffer.kind == kScratch, false);
  if ((facts.traits & (kFlat | kPixels)) != 0 && is_deep(p.params.depth)) {
    return op.fail(
        "the depth is {}, but on this device it may be {} at most where {}", p.params.depth, op.profile().max_rounds(),
        p.weights == Weights::pixels ? "a filter is larger than a pixel" : "rows of float16 results share words");
  }
  facts.trait(kShortVectors, op.profile().vector_lanes() == 4, false);
  const auto& v = op.choose(kProduct, facts);
  const bool is_flat = v.shader == &wgsl::product_flat;
  const bool is_words = v.shader == &wgsl::linear_q4;
  const bool is_row = v.shader == &wgsl::product_row;
  const bool is_tile = v.shader == &wgsl::product_tile;
  const bool by_groups = is_row || is_tile;
  const bool is_split = v.tile.groups != 0;
  const bool by_words = is_words || (by_groups && has_words && !p.varies);
  const std::uint64_t tiles = set_tiles(p, v.tile);
  const std::uint32_t lanes = v.threads(op.profile());
  // A split has a round of a team's lanes at least, or 16 steps of a tile.
  const auto most_splits = std::max(1U, p.params.depth / (is_row ? 512 : 256));
  p.params.splits = std::clamp(narrow(v.tile.groups / std::max<std::uint64_t>(1, tiles)), 1U, most_splits);

  Kernel kernel{.shader = *v.shader,
                .bind = {p.x, has_nibbles(p.weights) ? p.weight.raw(by_words ? Elem::words4 : Elem::words) : p.weight},
                .workgroup = lanes,
                .whole_groups = !is_flat,
                .overrides = {{"TILE_ROWS", static_cast<double>(v.tile.rows)},
                              {"TILE_COLUMNS", static_cast<double>(v.tile.columns)},
                              {"X_ALIGNED", flag(quads.x)},
                              // A thread of the flat kernel begins at any column.
                              {"WEIGHT_QUADS", flag(quads.weight && (!is_flat || p.weights != Weights::columns))},
                              {"SWAPPED", flag(p.weights == Weights::q4_swapped)},
                              {"OFFSETS", flag(p.has_offsets)},
                              {"SCALES_QUADS", flag(quads.scales && !is_flat)},
                              {"GATED", flag(p.is_gated)}}};
  kernel.fits = p.params.depth % 4 == 0 && p.params.rows % v.tile.rows == 0 &&
                std::ranges::all_of(p.params.sections, [&](const auto& s) { return s.width % v.tile.columns == 0; });
  // What follows the sums, in the same kernel or where splits are merged.
  const bool has_scales = p.scales && !has_nibbles(p.weights);
  const auto finish = [&](Kernel& k) {
    const Shader& plain = p.addend ? wgsl::epilogue_addend : wgsl::epilogue_scale;
    k.slots.push_back({"epilogue", has_scales ? wgsl::epilogue_columns : plain});
    k.slots.push_back({"activation", p.is_clamped ? wgsl::activation_clamp : wgsl::activation_none});
    if (has_scales) k.slots.push_back({"bias", p.addend ? wgsl::bias_of_columns : wgsl::bias_of_none});
    if (has_scales) k.bind.push_back(*p.scales);
    if (p.addend) k.bind.push_back(*p.addend);
    for (const auto& result : p.results) {
      if (result) k.bind.push_back(quads.results || is_flat ? *result : result->lanes(1));
    }
    const Shader& one = quads.results ? wgsl::store_quads : wgsl::store_elements;
    const Shader& several = p.results[2] ? wgsl::store_three : wgsl::store_two;
    if (!is_flat) k.slots.push_back({"store", p.results[1] ? several : one});
  };
  if (has_nibbles(p.weights)) kernel.bind.push_back(*p.scales);
  if (!is_split) finish(kernel);
  if (by_groups) kernel.slots.push_back({"write", is_split ? wgsl::product_write_partial : wgsl::product_write});
  const bool one = v.tile.rows == 1;
  if (!is_flat && !is_tile) kernel.slots.push_back({"rows", one ? wgsl::product_one_row : wgsl::product_four_rows});
  kernel.threads = by_groups ? (Size(tiles) * p.params.splits * lanes).unchecked() : tiles;
  if (is_words) {
    // A workgroup has one tile of rows: its threads share x.
    const auto across = Size(p.params.sections.back().tiles_end).div_up(lanes);
    kernel.threads = (across * p.params.row_tiles * p.params.batches * lanes).unchecked();
    kernel.slots.push_back({"tile", one ? wgsl::linear_q4_row : wgsl::linear_q4_rows});
    kernel.slots.push_back(
        {"x", *op.choose(kQ4X, Facts{.rows = p.rows}.trait(kDeviceHas, op.profile().subgroups, false)).shader});
  } else if (is_flat) {
    kernel.threads = (Size(p.params.batches) * p.params.rows * p.params.sections[0].result_width).div_up(4).unchecked();
  } else if (is_tile) {
    const auto& room = v.tile.rows == 32 ? wgsl::room_32 : v.tile.rows == 64 ? wgsl::room_64 : wgsl::room_128;
    kernel.slots.push_back({"room", room});
    kernel.slots.push_back({"numbers", op.profile().f16_products ? wgsl::tile_halves : wgsl::tile_floats});
    kernel.slots.push_back({"fill", by_words ? wgsl::fill_words : wgsl::fill_quads});
  } else if (is_row) {
    // As many tiles as the workgroup has subgroups; where their size is not known, 32 is usual.
    const auto size = op.profile().subgroup_max == 0 ? 32 : op.profile().subgroup_max;
    const auto teams = v.right.subgroups ? std::max(lanes / size, 1U) : 1;
    kernel.threads = (Size(kernel.threads).div_up(teams * lanes) * lanes).unchecked();
    kernel.overrides.push_back({"TEAM_TILES", static_cast<double>(teams)});
    kernel.slots.push_back({"chunk", by_words ? wgsl::chunk_q4 : wgsl::chunk_quads});
    kernel.slots.push_back({"team", v.right.subgroups ? wgsl::team_of_subgroup : wgsl::team_of_group});
  }
  if (!by_words) kernel.slots.push_back({"weights", *kLoaders[static_cast<std::size_t>(p.weights)]});
  const auto width = Size(p.params.sections[0].width) + p.params.sections[1].width + p.params.sections[2].width;
  kernel.work = (Size(p.params.batches) * p.params.rows * width * p.params.depth * (p.is_gated ? 2 : 1)).div_up(4);
  kernel.params = p.params;
  if (!is_split) return op.dispatch(kernel);
  // Tiles and splits are never more than what is wanted, or than the tiles of the most rows.
  const auto row_tiles = Size(std::min(p.rows.most, v.right.max_rows)).div_up(v.tile.rows);
  const auto most = row_tiles * p.params.sections.back().tiles_end * p.params.batches + v.tile.groups;
  TRY_ASSIGN(const auto sums, op.scratch(most * v.tile.rows * v.tile.columns * (p.is_gated ? 8 : 4)));
  kernel.bind.push_back(sums.write("partial", Elem::f32));
  TRY(op.dispatch(kernel));
  Kernel merge{.shader = wgsl::product_merge,
               .bind = {sums.read("partial", Elem::f32)},
               .threads = set_tiles(p, {.rows = 1, .columns = 4}),
               .overrides = {{"TILE_ROWS", 1}, {"TILE_COLUMNS", 4}, {"GATED", flag(p.is_gated)}}};
  merge.params = p.params;
  merge.work = Size(merge.threads) * p.params.splits;
  finish(merge);
  return op.dispatch(merge);
}

Status multiply_table(Lowering& op, Product p, const Table& weight, const Out& out) {
  TRY_ASSIGN(const auto width, narrow(op, Size::from_signed(weight.shape[0]), weight.arg));
  TRY_ASSIGN(p.params.weight_pitch, narrow(op, Size::from_signed(weight.shape[1]), weight.arg));
  p.results[0] = op.write("result", out);
  return op.for_each_row_range(weight.shape[0], {&weight}, [&](const RowRange& range) {
    p.weight = op.read("weight", weight, range.shards[0]);
    p.params.sections[0] = {.width = narrow(range.end - range.begin),
                            .weight_first = narrow(range.begin - range.shards[0].row_begin),
                            .result_first = narrow(range.begin),
                            .result_width = width};
    return multiply(op, p);
  });
}

std::int64_t last_dim(const Tensor& t) { return t.rank() == 0 ? 0 : t.shape[t.rank() - 1]; }

Result<Product> product_of(Lowering& op, const Tensor& x, const Tensor& weight, std::int64_t depth) {
  if (x.rank() == 0 || last_dim(x) != depth) {
    return op.fail("{} has shape {}, but its last dimension must be {}", x.arg, x.shape, depth);
  }
  Size rows = 1;
  Size most = 1;
  for (std::size_t i = 0; i + 1 < x.rank(); ++i) {
    rows = rows * Size::from_signed(x.shape[i]);
    most = most * Size::from_signed(op.bound(x)[i]);
  }
  Product p;
  TRY_ASSIGN(p.params.rows, narrow(op, rows, x.arg));
  p.params.depth = narrow(depth);
  p.max_depth = static_cast<std::uint64_t>(op.bound(x)[x.rank() - 1]);
  p.rows = op.extent(p.params.rows, most.unchecked(), {&x});
  p.varies = op.varies({&weight});
  p.x = op.read("x", x);
  return p;
}

Status set_width(Lowering& op, const Tensor& x, std::int64_t width, Out& out) {
  Shape shape = x.shape;
  shape[shape.rank() - 1] = width;
  return op.set_shape(out, shape);
}

Status add_bias(Lowering& op, Product& product, const std::optional<Float<Tensor>>& bias, const Tensor& weight) {
  if (!bias) return {};
  if (bias->numel() < weight.shape[0]) {
    return op.fail("bias has shape {}, but {} has {} rows", bias->shape, weight.arg, weight.shape[0]);
  }
  product.addend = op.read("addend", *bias);
  return {};
}

Result<std::uint32_t> narrow(const Lowering& op, Size count, std::string_view what) {
  if (!count.fits_u32()) return op.fail("{} has more rows or columns than 32 bits can count", what);
  return static_cast<std::uint32_t>(count.unchecked());
}

}  // namespace nibble::ops
