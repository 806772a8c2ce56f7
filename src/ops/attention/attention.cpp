// Attention as one streaming pass with an online softmax: no score matrix is ever in memory. Where the rows alone are
// too few to fill the device (a decode step), the keys are cut into parts that a second dispatch merges.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/attention/cache.hpp"
#include "ops/elementwise/strides.hpp"
#include "ops/families.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

/// Elements of a head: with more, a thread of a CPU adapter could not go through one step of keys.
constexpr std::int64_t kLargestSize = 32768;

/// Where heads and rows are among the dimensions of a tensor.
struct Axes {
  std::size_t heads;
  std::size_t rows;
};
constexpr Axes kCacheAxes{.heads = 2, .rows = 1};  // [batch, row, head, element]
constexpr Axes kHeadAxes{.heads = 1, .rows = 2};   // [batch, head, row, element]

/// As four dimensions: missing ones are 1, and all before the last three are one.
Shape four_dims(const Shape& shape) {
  Shape four{1, 1, 1, 1};
  for (std::size_t i = 0; i < shape.rank(); ++i) four[std::max(shape.rank(), i + 4) - shape.rank()] *= shape[i];
  return four;
}

/// Of batch, head and row, each of which is repeated where it is single.
std::array<std::uint32_t, 4> strides_of(const Shape& shape, Axes axes, std::int64_t size) {
  const auto row = axes.rows == 2 ? size : shape[2] * size;
  const auto head = axes.heads == 2 ? size : shape[2] * size;
  return {shape[0] == 1 ? 0 : narrow(shape[1] * shape[2] * size), shape[axes.heads] == 1 ? 0 : narrow(head),
          shape[axes.rows] == 1 ? 0 : narrow(row), 0};
}

struct Attention {
  Attention(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Float<Tensor>>& added, Out& result,
            Axes order)
      : query(q), key(k), value(v), mask(added ? &*added : nullptr), out(result), axes(order) {}

  const Tensor& query;
  const Tensor& key;
  const Tensor& value;
  const Tensor* mask;  ///< null where there is none
  Out& out;
  Axes axes;
  bool is_aligned = false;
  wgsl::AttentionParams params{.parts = 1};
};

// On a CPU adapter a barrier is a context switch of every lane, and workgroup memory is just memory: threads work
// alone. A tile's columns are the keys at a time.
constexpr Variant kAttentionVariants[] = {
    Variant("row", {.max_rows = 1}, {Adapters::cpu}, {1, 8, 8}, &wgsl::attention_row,
            "one row is all that shares a key head: three idle ones of four would cost"),
    Variant("rows", {}, {Adapters::cpu}, {4, 8, 8}, &wgsl::attention_rows,
            "a thread loads a key once for four rows, with no barrier"),
    Variant("subgroup_wide_tile", {.subgroups = true}, {.min_rows = 24}, {32, 32, 128}, &wgsl::attention_tile,
            "as wide_tile, but lanes pass each other scores by shuffles"),
    Variant("wide_tile", {}, {.min_rows = 24}, {32, 32, 128}, &wgsl::attention_tile, "a key is read once for 32 rows"),
    Variant("subgroup_tile", {.subgroups = true}, {}, {8, 64, 64}, &wgsl::attention_tile, "as tile, with shuffles"),
    Variant("tile", {}, {}, {8, 64, 64}, &wgsl::attention_tile, "a workgroup reads a key once for eight rows"),
};
static_assert(std::ranges::all_of(kAttentionVariants, [](const Variant& v) {
  const auto rows = v.tile.rows, keys = v.tile.columns, threads = v.tile.threads;  // attention_tile has room for these
  return keys == 8 || (rows * keys == 8 * threads && rows % 8 == 0 && rows <= 32 && keys <= 64 && threads <= 128);
}));

/// How variants share out the keys. Parts are few on a CPU adapter, for merging them is not free.
struct Split {
  std::uint32_t units;      ///< tiles and parts that fill the device: where there are fewer tiles, keys are split
  std::uint32_t part_keys;  ///< with fewer keys a part is not worth its merge
  bool sums_in_result;      ///< the result holds sums on the way, so it must be float32
  std::uint32_t rounds;     ///< of a thread's loops for each step, beside those for each vec4 of a key and of a value

  /// Keys that one part may have. The values are met before and after the steps too, for each of four rows.
  std::uint32_t max_part_keys(const Lowering& op, std::uint32_t step, std::uint64_t quads, std::uint64_t values) const {
    const auto each = rounds + (sums_in_result ? 1 : 3) * quads + values;
    const auto steps = (op.profile().max_rounds() - 5 * values) / each;
    return narrow(std::min<std::uint64_t>(steps, std::numeric_limits<std::uint32_t>::max() / step)) * step;
  }
};
constexpr Split kByThreads{128, 16, true, 2};
constexpr Split kByTiles{512, 64, false, 300};
constexpr Split kByWideTiles{128, 64, false, 300};

constexpr std::uint32_t kDirect = 1;  // keys are not split, and rows can be written by themselves

constexpr Variant kKeys[] = {
    Variant("whole", {.traits = kDirect}, {}, {}, {}, "there are rows enough to fill the device"),
    Variant("parts", {.none_of = kDirect}, {}, {}, {}, "keys are cut into parts that a second dispatch merges"),
};

constexpr std::uint32_t kAligned = 1;  // rows are whole vec4s

constexpr Variant kLoads[] = {
    Variant("quads", {.traits = kAligned}, {}, {}, {}, "rows are whole vec4s"),
    Variant("elements", {}, {}, {}, {}, "right for all sizes"),
};

constexpr Choice kAttentionChoice{"attention", kAttentionVariants};
constexpr Choice kKeysChoice{"attention_keys", kKeys};
constexpr Choice kLoadsChoice{"attention_loads", kLoads};

Status run_rows(Lowering& op, Attention& a, const Variant& variant, const BufferArg& result) {
  auto& p = a.params;
  const auto key_work = Size(p.batch) * p.key_heads * p.group * p.rows * (Size(p.quads) + p.value_quads);
  p.in_parts = result.buffer.kind == BufferRef::Kind::scratch ? 1 : 0;
  Kernel kernel{.shader = *variant.shader,
                .bind = {op.read("query", a.query), op.read("key", a.key), op.read("value", a.value), result},
                .params = p,
                .threads = p.value_quads == 0 ? 0 : (Size(p.batch) * p.key_heads * p.tiles * p.parts).unchecked(),
                .workgroup = variant.tile.threads,
                .work = key_work * p.keys,
                .most_work = key_work * Size::from_signed(four_dims(op.bound(a.value))[a.axes.rows]),
                .whole_groups = true,
                .slots = {{"load", a.is_aligned ? wgsl::load_aligned_rows : wgsl::load_any_rows},
                          {"mask", a.mask ? wgsl::with_mask : wgsl::no_mask}}};
  if (variant.shader == &wgsl::attention_tile) {
    kernel.threads *= std::uint64_t{variant.tile.threads} * p.columns;
    kernel.overrides = {{"ROWS", 1.0 * variant.tile.rows}, {"KEYS", 1.0 * variant.tile.columns}};
    kernel.slots.push_back({"softmax", variant.right.subgroups ? wgsl::softmax_by_subgroups : wgsl::softmax_in_memory});
  }
  if (a.mask) kernel.bind.push_back(op.read("mask", *a.mask));
  return op.dispatch(kernel);
}

Status run_merge(Lowering& op, const Attention& a, const Scratch& parts) {
  const auto& p = a.params;
  const auto quads = quads_of(a.out.shape);
  const wgsl::AttentionMergeParams params{quads, narrow(a.out.numel()), p.value_size, p.parts, p.keys, p.value_quads};
  return op.dispatch({.shader = wgsl::attention_merge,
                      .bind = {parts.read("partial", Elem::f32), op.write("result", a.out)},
                      .params = params,
                      .threads = quads,
                      .work = Size(quads) * p.parts,
                      .overrides = {{"ALIGNED", flag(a.is_aligned)}}});
}

/// Cuts the keys of this call into parts, as few as fill the device and are short enough.
void split_keys(wgsl::AttentionParams& p, const Split& split, const Tile& tile, std::uint32_t max_part_keys) {
  p.tiles = narrow((Size(p.rows) * p.group).div_up(tile.rows).unchecked());
  const std::uint64_t tiles = std::max<std::uint64_t>(1, std::uint64_t{p.batch} * p.key_heads * p.tiles * p.columns);
  const auto most = std::max<std::uint64_t>(1, p.keys / split.part_keys);
  const auto parts =
      std::max(std::clamp<std::uint64_t>(split.units / tiles, 1, most), Size(p.keys).div_up(max_part_keys).unchecked());
  p.part_keys = narrow(Size(p.keys).div_up(parts).align_up(tile.columns).unchecked());
  p.parts = std::max(1U, narrow(Size(p.keys).div_up(std::max(1U, p.part_keys)).unchecked()));
}

/// The sizes of heads, and how many of the query's share one of the keys'.
Status check_heads(const Lowering& op, Attention& a, std::int64_t heads, std::int64_t key_heads) {
  const auto size = a.query.shape[a.query.rank() - 1];
  const auto value_size = a.value.shape[a.value.rank() - 1];
  if (std::max(size, value_size) > kLargestSize) {
    return op.fail("heads have {} elements, but {} is the most", std::max(size, value_size), kLargestSize);
  }
  if (key_heads == 0 ? heads != 0 : heads % key_heads != 0) {
    return op.fail("{} has {} heads, which {} heads of {} cannot share", a.query.arg, heads, key_heads, a.key.arg);
  }
  auto& p = a.params;
  p.key_heads = narrow(key_heads);
  p.group = key_heads == 0 ? 0 : narrow(heads / key_heads);
  p.size = narrow(size);
  p.quads = (p.size + 3) / 4;
  p.value_size = narrow(value_size);
  p.value_quads = (p.value_size + 3) / 4;
  return {};
}

/// How the mask lies over batch, heads, rows and keys: missing and single dimensions are repeated.
Status read_mask(const Lowering& op, Attention& a, const Shape& wanted) {
  if (!a.mask) return {};
  const Shape mask = four_dims(a.mask->shape);
  std::uint32_t stride = 1;
  for (std::size_t i = 4; i-- > 0;) {
    if (mask[i] != 1 && mask[i] != wanted[i]) {
      return op.fail("{} has shape {}, which does not broadcast to {}", a.mask->arg, a.mask->shape, wanted);
    }
    if (mask[i] != 1) a.params.mask_strides[i] = stride;
    stride *= narrow(mask[i]);
  }
  return {};
}

/// All rows of this call, and as many keys as `params` says. The result has its shape.
Status attend(Lowering& op, Attention& a, std::optional<Number> scale) {
  auto& p = a.params;
  const Shape result = four_dims(a.out.shape);
  p.batch = narrow(result[0]);
  p.rows = narrow(result[a.axes.rows]);
  p.scale = static_cast<float>(scale ? scale->value : 1 / std::sqrt(static_cast<double>(p.size)));
  p.query_strides = strides_of(four_dims(a.query.shape), a.axes, p.size);
  p.key_strides = strides_of(four_dims(a.key.shape), a.axes, p.size);
  p.value_strides = strides_of(four_dims(a.value.shape), a.axes, p.value_size);
  p.result_strides = strides_of(result, a.axes, 1);
  a.is_aligned = &op.choose(kLoadsChoice, Facts{}.trait(kAligned, p.size % 4 == 0 && p.value_size % 4 == 0,
                                                        op.varies({&a.key, &a.value}))) == kLoads;

  const Shape value = four_dims(op.bound(a.value));
  const auto most_size = Size::from_signed(four_dims(op.bound(a.query))[3]).div_up(4).unchecked();
  const auto most_value_quads = Size::from_signed(value[3]).div_up(4).unchecked();
  const auto most_rows = Size::of(op.bound(a.out)).unchecked() / std::max<std::uint64_t>(1, narrow(value[3]));
  // Rows of several heads share a key head; in a cache their number is the program's.
  // Where there are none, nothing runs, whatever is chosen.
  Extent rows = op.extent(std::uint64_t{std::max(1U, p.rows)} * p.group, std::max<std::uint64_t>(1, most_rows),
                          {&a.query, &a.key, &a.value, a.mask ? a.mask : &a.query});
  if (op.is_fixed(a.key) && a.axes.heads == kCacheAxes.heads) rows.least = std::min<std::uint64_t>(rows.now, p.group);
  const auto most_keys = static_cast<std::uint64_t>(value[a.axes.rows]);
  const Variant& variant =
      op.choose(kAttentionChoice, {.rows = rows, .width = {p.size}, .depth = Extent{p.keys, 0, most_keys}});
  const bool is_tile = variant.shader == &wgsl::attention_tile;
  const Split& split = !is_tile ? kByThreads : variant.tile.rows == 8 ? kByTiles : kByWideTiles;
  p.lanes_per_row = std::bit_ceil(std::min(p.value_quads, variant.tile.columns));
  p.columns = is_tile ? std::max(1U, (p.value_quads + variant.tile.columns - 1) / variant.tile.columns) : 1;
  const auto max_part_keys = split.max_part_keys(op, variant.tile.columns, most_size, most_value_quads);
  split_keys(p, split, variant.tile, max_part_keys);
  const auto most_parts = most_keys / split.part_keys;
  // A row that is no whole number of vec4s cannot be stored by itself.
  const bool is_direct = a.is_aligned && (!split.sums_in_result || a.out.dtype == DType::f32);
  const Variant& keys =
      op.choose(kKeysChoice, Facts{}.trait(kDirect, is_direct && p.parts == 1, is_direct && most_parts >= 2));
  if (&keys == kKeys) return run_rows(op, a, variant, op.write("result", a.out));
  // Calls in parts have at most `units` tiles and parts, but where no part may have all keys.
  const auto in_parts = std::min((Size(most_rows) * std::max<std::uint64_t>(1, most_parts)).unchecked(),
                                 std::uint64_t{split.units} * variant.tile.rows);
  const auto least_parts = Size(most_keys).div_up(max_part_keys).unchecked();
  const auto always =
      is_direct && least_parts <= 1 ? Size(0) : Size(most_rows) * std::max<std::uint64_t>(1, least_parts);
  TRY_ASSIGN(const auto scratch,
             op.scratch(Size(std::max(in_parts, always.unchecked())) * (most_value_quads + 1) * 16));
  TRY(run_rows(op, a, variant, scratch.write("result", Elem::f32)));
  return run_merge(op, a, scratch);
}

/// Query [batch, row, head, element] and the caches.
Status check_cache(const Lowering& op, Attention& a) {
  for (const Tensor* t : {&a.query, &a.key, &a.value, static_cast<const Tensor*>(&a.out)}) {
    if (t->rank() != 4) return op.fail("{} must have 4 dimensions, but its shape is {}", t->arg, t->shape);
  }
  const Shape& q = a.query.shape;
  const Shape& k = a.key.shape;
  if (!(k == a.value.shape)) return op.fail("{} has shape {}, but {} has {}", a.key.arg, k, a.value.arg, a.value.shape);
  if (k[3] != q[3] || k[0] != q[0]) return op.fail("{} has shape {}, but {} has {}", a.query.arg, q, a.key.arg, k);
  return check_heads(op, a, q[2], k[2]);
}

/// The keys that a call sees: those up to its own positions, each row up to itself where `is_causal`; with a mask, all
/// of the cache.
Status see_cache(Lowering& op, Attention& a, std::int64_t start, std::optional<bool> is_causal) {
  const Shape& q = a.query.shape;
  const std::int64_t rows = q[1];
  TRY(check_positions(op, rows, a.key, start));
  if (q[2] != op.bound(a.query)[2]) {
    return op.fail("{} has {} heads, but the program is made for {}", a.query.arg, q[2], op.bound(a.query)[2]);
  }
  if (a.mask && is_causal.value_or(false)) return op.fail("{} and is_causal exclude each other", a.mask->arg);
  a.params.keys = narrow(a.mask ? a.key.shape[1] : start + rows);
  a.params.first = narrow(start);
  a.params.causal = !a.mask && is_causal.value_or(true) ? 1 : 0;
  TRY(op.set_shape(a.out, q));
  return read_mask(op, a, {q[0], q[2], rows, std::int64_t{a.params.keys}});
}

Status sdpa_with_kv_cache(Lowering& op, const Float<Tensor>& query, const Float<Tensor>& key,
                          const Float<Tensor>& value, const Float<State>& key_cache, const Float<State>& value_cache,
                          LiveInt start, Ignored, const std::optional<Float<Tensor>>& mask, Ignored,
                          std::optional<bool> is_causal, std::optional<Number> scale, Float<Out>& out) {
  Attention a(query, key_cache, value_cache, mask, out, kCacheAxes);
  TRY(check_cache(op, a));
  if (!(key.shape == value.shape) || key.shape[1] != query.shape[1]) {
    return op.fail("query has shape {}, key {} and value {}: their positions differ", query.shape, key.shape,
                   value.shape);
  }
  TRY(check_cache_write(op, key, key_cache, start));
  TRY(check_cache_write(op, value, value_cache, start));
  TRY(see_cache(op, a, start, is_causal));
  TRY(write_caches(op, &key, &key_cache, value, value_cache, start));
  return attend(op, a, scale);
}

Status custom_sdpa(Lowering& op, const Float<Tensor>& query, const Float<Tensor>& key_cache,
                   const Float<Tensor>& value_cache, LiveInt start, const std::optional<Float<Tensor>>& mask, Ignored,
                   std::optional<bool> is_causal, std::optional<Number> scale, Float<Out>& out) {
  Attention a(query, key_cache, value_cache, mask, out, kCacheAxes);
  TRY(check_cache(op, a));
  TRY(see_cache(op, a, start, is_causal));
  return attend(op, a, scale);
}

/// As torch's matmul, add, softmax and matmul: what is missing or single is repeated, in masks too. Beyond that, heads
/// of the query may share those of keys and values.
Status sdpa(Lowering& op, const Float<Tensor>& q, const Float<Tensor>& k, const Float<Tensor>& v,
            const std::optional<Float<Tensor>>& mask, std::optional<Number> scale, Float<Out>& out) {
  Attention a(q, k, v, mask, out, kHeadAxes);
  for (const Tensor* t : {&a.query, &a.key, &a.value}) {
    if (t->rank() < 2) return op.fail("{} must have 2 dimensions or more, but its shape is {}", t->arg, t->shape);
  }
  const Shape query = four_dims(q.shape);
  const Shape key = four_dims(k.shape);
  const Shape value = four_dims(v.shape);
  const Shape masks = mask ? four_dims(mask->shape) : Shape{1, 1, 1, 1};
  const bool is_shared = key[1] == value[1] && key[1] > 1 && query[1] % key[1] == 0;
  Shape shape;
  Shape wider;
  for (const Tensor* t : {&a.query, &a.key, &a.value, a.mask}) {
    Shape batches = t ? t->shape : Shape{};
    for (std::size_t i = 1; i <= batches.rank(); ++i) {
      if (i <= 2 || (i == 3 && is_shared && (t == &a.key || t == &a.value))) batches[batches.rank() - i] = 1;
    }
    if (!broadcast(shape, batches, wider)) {
      return op.fail("{} has shape {}, whose batches and heads do not broadcast to {}", t->arg, t->shape, shape);
    }
    shape = wider;
  }
  const auto rows = query[2] == 1 ? masks[2] : query[2];
  const auto keys = key[2] == 1 ? masks[3] : key[2];
  if (key[3] != query[3]) return op.fail("{} has shape {}, but {} has {}", q.arg, q.shape, k.arg, k.shape);
  if (value[2] != keys) return op.fail("{} has shape {}, but there are {} keys", v.arg, v.shape, keys);
  shape[shape.rank() - 2] = rows;
  shape[shape.rank() - 1] = value[3];
  const Shape result = four_dims(shape);
  for (const auto batch : {query[0], key[0], value[0]}) {
    if (batch != 1 && batch != result[0]) {
      return op.fail("{}, {} and {} have shapes {}, {} and {}: of several dimensions of batches, some are repeated",
                     q.arg, k.arg, v.arg, q.shape, k.shape, v.shape);
    }
  }
  TRY(op.set_shape(out, shape));
  TRY(check_heads(op, a, result[1], key[1] == value[1] ? key[1] : result[1]));
  a.params.keys = narrow(keys);
  TRY(read_mask(op, a, {result[0], result[1], rows, keys}));
  return attend(op, a, scale);
}

constexpr Op kAttentionOps[] = {
    op<sdpa_with_kv_cache>("sdpa_with_kv_cache.default",
                           "query, key, value, key_cache, value_cache, start_pos, seq_len, attn_mask, dropout_p, "
                           "is_causal, scale -> out",
                           "any head size, any grouping of heads, any context length"),
    op<custom_sdpa>("llama.custom_sdpa.default",
                    "query, key_cache, value_cache, start_pos, attn_mask, dropout_p, is_causal, scale -> out",
                    "as sdpa_with_kv_cache, without the write"),
    op<sdpa>(
        "et_vk.sdpa.default", "q, k, v, attn_mask, scale -> out",
        "any head size, of values another than of keys; all operands broadcast; a row whose keys are all masked by "
        "infinity gives NaN, as in torch"),
};

}  // namespace

const Family kAttention{"attention", kAttentionOps, {&kAttentionChoice, &kKeysChoice, &kLoadsChoice}};

}  // namespace nibble::ops
