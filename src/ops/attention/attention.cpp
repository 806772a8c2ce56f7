// Attention as one streaming pass with an online softmax: no score matrix is ever in memory. Where the rows alone are
// too few to fill the device (a decode step), the keys are cut into parts that a second dispatch merges.
#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "ops/checks.hpp"
#include "ops/ops.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

constexpr std::int64_t kLargestSize = 256;

struct Params {
  std::uint32_t batch = 1;
  std::uint32_t key_heads = 1;
  std::uint32_t group = 1;  ///< heads that share a key head
  std::uint32_t rows = 0;
  std::uint32_t keys = 0;
  std::uint32_t size = 0;   ///< elements per row
  std::uint32_t tiles = 1;  ///< workgroups that share a key head and a part
  std::uint32_t parts = 1;
  std::uint32_t part_keys = 0;
  std::uint32_t causal = 0;
  std::uint32_t first = 0;
  float scale = 1;
  std::uint32_t quads = 0;  ///< vec4s per row
  std::uint32_t in_parts = 0;
  std::uint32_t lanes_per_row = 0;
  std::uint32_t pad = 0;
  std::array<std::uint32_t, 4> query_strides{};  ///< of batch, head and row
  std::array<std::uint32_t, 4> key_strides{};
  std::array<std::uint32_t, 4> mask_strides{};  ///< also of the keys
};

struct MergeParams {
  std::uint32_t quads = 0;
  std::uint32_t count = 0;
  std::uint32_t size = 0;
  std::uint32_t parts = 0;
  std::uint32_t keys = 0;
  std::uint32_t row_quads = 0;
};

std::uint32_t narrow(std::int64_t value) { return static_cast<std::uint32_t>(value); }

/// Where batch, heads and rows are among the dimensions of a tensor whose last ones are the elements of rows.
struct Axes {
  std::size_t heads;
  std::size_t rows;
};
constexpr Axes kCacheAxes{.heads = 2, .rows = 1};  // [batch, row, head, element]
constexpr Axes kHeadAxes{.heads = 1, .rows = 2};   // [batch, head, row, element]

std::array<std::uint32_t, 4> strides_of(const Shape& shape, Axes axes) {
  const auto row = axes.rows == 2 ? shape[3] : shape[2] * shape[3];
  const auto head = axes.heads == 2 ? shape[3] : shape[2] * shape[3];
  return {narrow(shape[1] * shape[2] * shape[3]), narrow(head), narrow(row), 0};
}

struct Attention {
  Tensor query;
  Tensor key;
  Tensor value;
  std::optional<Tensor> mask;
  Out out;
  Axes axes{};
  Params params{};
};

/// How work is shared out on a kind of device.
struct Form {
  const Shader& shader;
  std::uint32_t tile;     ///< rows that are worked on together
  std::uint32_t threads;  ///< for a tile and a part of the keys
  std::uint32_t workgroup;
  std::uint32_t units;      ///< tiles and parts that fill the device: where there are fewer tiles, keys are split
  std::uint32_t step;       ///< keys at a time
  std::uint32_t part_keys;  ///< with fewer keys a part is not worth its merge
  bool sums_in_result;      ///< the result holds sums on the way, so it must be float32
};

// On a CPU adapter a barrier is a context switch of every lane, and workgroup memory is just memory: threads work
// alone. Parts are few, for merging them is not free either.
const Form kAlone{wgsl::attention_rows, 4, 1, 8, 128, 8, 16, true};
const Form kOneRow{wgsl::attention_row, 1, 1, 8, 128, 8, 16, true};
const Form kTogether{wgsl::attention_tile, 8, 64, 64, 512, 64, 64, false};

/// The form for `rows` rows that share a key head.
const Form& form_for(const OpContext& op, std::uint64_t rows) {
  if (op.profile().kind != AdapterKind::cpu) return kTogether;
  return rows == 1 ? kOneRow : kAlone;
}

constexpr std::string_view kAlignedRows =
    "fn query4(at: u32, j: u32) -> vec4<f32> { return load4_query(at / 4u + j); }\n"
    "fn key4(at: u32, j: u32) -> vec4<f32> { return load4_key(at / 4u + j); }\n"
    "fn value4(at: u32, j: u32) -> vec4<f32> { return load4_value(at / 4u + j); }";
// A row's last vec4 is filled up with zeros: what lies past the row is another row.
constexpr std::string_view kAnyRows =
    "fn row4(j: u32, x: f32, y: f32, z: f32, w: f32) -> vec4<f32> {\n"
    "  return select(vec4<f32>(0.0), vec4<f32>(x, y, z, w), 4u * j + vec4<u32>(0u, 1u, 2u, 3u) < "
    "vec4<u32>(params.size));\n"
    "}\n"
    "fn query4(at: u32, j: u32) -> vec4<f32> { let i = at + 4u * j;\n"
    "  return row4(j, load_query(i), load_query(i + 1u), load_query(i + 2u), load_query(i + 3u)); }\n"
    "fn key4(at: u32, j: u32) -> vec4<f32> { let i = at + 4u * j;\n"
    "  return row4(j, load_key(i), load_key(i + 1u), load_key(i + 2u), load_key(i + 3u)); }\n"
    "fn value4(at: u32, j: u32) -> vec4<f32> { let i = at + 4u * j;\n"
    "  return row4(j, load_value(i), load_value(i + 1u), load_value(i + 2u), load_value(i + 3u)); }";
constexpr std::string_view kNoMask = "fn bias(at: u32, key: u32) -> f32 { return 0.0; }";
constexpr std::string_view kMask =
    "fn bias(at: u32, key: u32) -> f32 {\n"
    "  return load_mask(at + min(key, params.keys - 1u) * params.mask_strides.w);\n"
    "}";

bool is_aligned(const Attention& a) { return a.params.size % 4 == 0; }

/// Whether a call whose keys are not split writes the result itself, without a merge: a row that is no whole number of
/// vec4s cannot be stored by itself.
bool writes_result(const Attention& a, const Form& form) {
  return is_aligned(a) && (!form.sums_in_result || a.out.dtype == DType::f32);
}

Status run_form(OpContext& op, Attention& a, const Form& form, bool in_parts, bool only_prepare) {
  Bindings bind{op.read("query", a.query), op.read("key", a.key), op.read("value", a.value),
                in_parts ? op.write_scratch("result", Elem::f32) : op.write("result", a.out)};
  if (a.mask) bind.add(op.read("mask", *a.mask));
  auto& p = a.params;
  p.in_parts = in_parts ? 1 : 0;
  const Kernel kernel{
      .shader = form.shader,
      .bind = bind,
      .params = params_of(p),
      .threads = (Size(p.batch) * p.key_heads * p.tiles * p.parts * form.threads).unchecked(),
      .workgroup = form.workgroup,
      .whole_groups = true,
      .lines = {wgsl::attention_params.body, is_aligned(a) ? kAlignedRows : kAnyRows, a.mask ? kMask : kNoMask}};
  return only_prepare ? op.prepare(kernel) : op.dispatch(kernel);
}

Status run_merge(OpContext& op, Attention& a, std::uint64_t quads, bool only_prepare) {
  const auto& p = a.params;
  const MergeParams params{.quads = static_cast<std::uint32_t>(quads),
                           .count = static_cast<std::uint32_t>(Size::of(a.out.shape).unchecked()),
                           .size = p.size,
                           .parts = p.parts,
                           .keys = p.keys,
                           .row_quads = p.quads};
  const Kernel kernel{.shader = wgsl::attention_merge,
                      .bind = {op.read_scratch("partial", Elem::f32), op.write("result", a.out)},
                      .params = params_of(params),
                      .threads = quads,
                      .overrides = {{"ALIGNED", is_aligned(a) ? 1.0 : 0.0}}};
  return only_prepare ? op.prepare(kernel) : op.dispatch(kernel);
}

/// Cuts the keys of this call into parts, as few as fill the device.
void split_keys(Params& p, const Form& form) {
  p.tiles = static_cast<std::uint32_t>((Size(p.rows) * p.group).div_up(form.tile).unchecked());
  const std::uint64_t tiles = std::max<std::uint64_t>(1, std::uint64_t{p.batch} * p.key_heads * p.tiles);
  const auto most = std::max<std::uint64_t>(1, p.keys / form.part_keys);
  const auto parts = std::clamp<std::uint64_t>(form.units / tiles, 1, most);
  p.part_keys = static_cast<std::uint32_t>(Size(p.keys).div_up(parts).align_up(form.step).unchecked());
  p.parts = std::max(1U, static_cast<std::uint32_t>(Size(p.keys).div_up(std::max(1U, p.part_keys)).unchecked()));
}

/// Says what any call may need, before anything that is wrong with this one is found.
Status reserve(OpContext& op, Attention& a) {
  const auto most_rows = Size::of(op.bound(a.query)).unchecked() / a.params.size;
  Size scratch = 0;
  const Form* last = nullptr;
  for (const auto rows : {a.params.group, std::max(2U, a.params.group)}) {
    const Form& form = form_for(op, rows);
    if (std::exchange(last, &form) == &form) continue;
    // Calls in parts have at most `units` tiles and parts.
    const auto most_parts = static_cast<std::uint64_t>(op.bound(a.key)[a.axes.rows]) / form.part_keys;
    const auto in_parts =
        most_parts < 2 ? 0
                       : std::min((Size(most_rows) * most_parts).unchecked(), std::uint64_t{form.units} * form.tile);
    const auto needed = std::max(in_parts, writes_result(a, form) ? 0 : most_rows);
    scratch = std::max(scratch.unchecked(), needed);
    if (writes_result(a, form)) TRY(run_form(op, a, form, false, true));
    if (needed > 0) TRY(run_form(op, a, form, true, true));
  }
  op.need_scratch(scratch * (a.params.quads + 1) * 16);
  op.need_dispatches(3);
  if (scratch.unchecked() == 0) return {};
  TRY(run_merge(op, a, 1, true));
  return run_merge(op, a, 1 << 20, true);
}

/// What never changes from call to call.
Status check(const OpContext& op, Attention& a) {
  for (const Tensor* t : {&a.query, &a.key, &a.value, static_cast<Tensor*>(&a.out)}) {
    TRY(check_float(op, *t));
    if (t->rank() != 4) return op.fail("{} must have 4 dimensions, but its shape is {}", t->arg, t->shape);
  }
  if (a.mask) TRY(check_float(op, *a.mask));
  const Shape& q = a.query.shape;
  const Shape& k = a.key.shape;
  if (q[3] < 1 || q[3] > kLargestSize)
    return op.fail("heads have {} elements, but 1 to {} are supported", q[3], kLargestSize);
  if (q[3] != op.bound(a.query)[3]) {
    return op.fail("heads have {} elements, but the program is made for {}", q[3], op.bound(a.query)[3]);
  }
  if (!(k == a.value.shape)) return op.fail("{} has shape {}, but {} has {}", a.key.arg, k, a.value.arg, a.value.shape);
  if (k[3] != q[3] || k[0] != q[0]) return op.fail("{} has shape {}, but {} has {}", a.query.arg, q, a.key.arg, k);
  const auto heads = q[a.axes.heads];
  const auto key_heads = k[a.axes.heads];
  if (key_heads == 0 ? heads != 0 : heads % key_heads != 0) {
    return op.fail("{} has {} heads, which {} heads of {} cannot share", a.query.arg, heads, key_heads, a.key.arg);
  }
  auto& p = a.params;
  p.batch = narrow(q[0]);
  p.key_heads = narrow(key_heads);
  p.group = key_heads == 0 ? 0 : narrow(heads / key_heads);
  p.size = narrow(q[3]);
  p.quads = (p.size + 3) / 4;
  p.lanes_per_row = std::bit_ceil(p.quads);
  return {};
}

/// All rows of this call, and as many keys as `params` says.
Status attend(OpContext& op, Attention& a, std::optional<Number> scale) {
  TRY(op.set_shape(a.out, a.query.shape));
  auto& p = a.params;
  p.rows = narrow(a.query.shape[a.axes.rows]);
  p.scale = static_cast<float>(scale ? scale->value : 1 / std::sqrt(static_cast<double>(p.size)));
  p.query_strides = strides_of(a.query.shape, a.axes);
  p.key_strides = strides_of(a.key.shape, a.axes);
  if (a.query.numel() == 0) return {};
  const Form& form = form_for(op, std::uint64_t{p.rows} * p.group);
  split_keys(p, form);
  if (p.parts == 1 && writes_result(a, form)) return run_form(op, a, form, false, false);
  TRY(run_form(op, a, form, true, false));
  return run_merge(op, a, Size::of(a.out.shape).div_up(4).unchecked(), false);
}

constexpr std::string_view kOneCache =
    "const CACHES = 1u;\n"
    "fn source(cache: u32, i: u32) -> f32 { return load_value(i); }\n"
    "fn source4(cache: u32, i: u32) -> vec4<f32> { return load4_value(i); }\n"
    "fn held4(cache: u32, i: u32) -> vec4<f32> { return load4_value_cache(i); }\n"
    "fn put4(cache: u32, i: u32, v: vec4<f32>) { store4_value_cache(i, v); }";
constexpr std::string_view kTwoCaches =
    "const CACHES = 2u;\n"
    "fn source(cache: u32, i: u32) -> f32 { if (cache == 0u) { return load_key(i); } return load_value(i); }\n"
    "fn source4(cache: u32, i: u32) -> vec4<f32> { if (cache == 0u) { return load4_key(i); } return load4_value(i); }\n"
    "fn held4(cache: u32, i: u32) -> vec4<f32> {\n"
    "  if (cache == 0u) { return load4_key_cache(i); } return load4_value_cache(i);\n"
    "}\n"
    "fn put4(cache: u32, i: u32, v: vec4<f32>) {\n"
    "  if (cache == 0u) { store4_key_cache(i, v); } else { store4_value_cache(i, v); }\n"
    "}";

/// Writes the rows of `value` (and of `key`) to their caches at position `start`.
Status write_caches(OpContext& op, const Tensor* key, const Tensor* key_cache, const Tensor& value,
                    const Tensor& value_cache, std::int64_t start) {
  struct WriteParams {
    std::uint32_t quads;
    std::uint32_t row;
    std::uint32_t rows;
    std::uint32_t first;
    std::uint32_t cache_rows;
  };
  const Size row = Size::from_signed(value.shape[2]) * Size::from_signed(value.shape[3]);
  const bool is_aligned = row.unchecked() % 4 == 0;
  std::uint64_t quads = Size::of(value.shape).div_up(4).unchecked();
  if (!is_aligned && quads > 0) {
    const auto begin = static_cast<std::uint64_t>(start) * row.unchecked();
    const auto end =
        (static_cast<std::uint64_t>((value.shape[0] - 1) * value_cache.shape[1] + start + value.shape[1])) *
        row.unchecked();
    quads = (end + 3) / 4 - begin / 4;
  }
  Bindings bind{op.read("value", value), op.update("value_cache", value_cache)};
  if (key != nullptr) bind.add(op.read("key", *key)).add(op.update("key_cache", *key_cache));
  const WriteParams params{static_cast<std::uint32_t>(quads), static_cast<std::uint32_t>(row.unchecked()),
                           narrow(value.shape[1]), narrow(start), narrow(value_cache.shape[1])};
  Kernel kernel{.shader = wgsl::cache_write,
                .bind = bind,
                .params = params_of(params),
                .threads = 1,
                .overrides = {{"ALIGNED", is_aligned ? 1.0 : 0.0}},
                .lines = {key != nullptr ? kTwoCaches : kOneCache}};
  TRY(op.prepare(kernel));
  kernel.threads = (key != nullptr ? 2 : 1) * quads;
  return op.dispatch(kernel);
}

/// How the mask lies over batch, heads, rows and keys: missing and single dimensions are repeated.
Status read_mask(const OpContext& op, Attention& a) {
  if (!a.mask) return {};
  const Shape& q = a.query.shape;
  const Shape wanted{q[0], q[a.axes.heads], q[a.axes.rows], std::int64_t{a.params.keys}};
  const Shape& mask = a.mask->shape;
  std::uint32_t stride = 1;
  for (std::size_t i = 0; i < mask.rank(); ++i) {
    const auto dim = mask[mask.rank() - 1 - i];
    if (dim != 1 && (i >= 4 || dim != wanted[3 - i])) {
      return op.fail("{} has shape {}, which does not broadcast to {}", a.mask->arg, mask, wanted);
    }
    if (dim != 1) a.params.mask_strides[3 - i] = stride;
    stride *= narrow(dim);
  }
  return {};
}

/// The keys that a call sees: those up to its own positions, each row up to itself where `is_causal`; with a mask, all
/// of the cache.
Status see_cache(const OpContext& op, Attention& a, std::int64_t start, std::optional<bool> is_causal) {
  const std::int64_t rows = a.query.shape[1];
  TRY(check_positions(op, rows, a.key, start));
  if (a.mask && is_causal.value_or(false)) return op.fail("{} and is_causal exclude each other", a.mask->arg);
  a.params.keys = narrow(a.mask ? a.key.shape[1] : start + rows);
  a.params.first = narrow(start);
  a.params.causal = !a.mask && is_causal.value_or(true) ? 1 : 0;
  return read_mask(op, a);
}

}  // namespace

Status check_positions(const OpContext& op, std::int64_t count, const Tensor& cache, std::int64_t start) {
  if (start < 0) return fail_range(op, "start_pos is {}, but it must not be negative", start);
  if (start > cache.shape[1] || count > cache.shape[1] - start) {
    return fail_range(op, "start_pos {} + {} new positions reach past the cache's {}", start, count, cache.shape[1]);
  }
  return {};
}

Status check_cache_write(const OpContext& op, const Tensor& value, const Tensor& cache, std::int64_t start) {
  if (cache.rank() != 4 || value.rank() != 4 ||
      !(cache.shape == Shape{value.shape[0], cache.shape[1], value.shape[2], value.shape[3]})) {
    return op.fail("{} has shape {}, which does not fit {} of shape {}", value.arg, value.shape, cache.arg,
                   cache.shape);
  }
  return check_positions(op, value.shape[1], cache, start);
}

Status update_cache(OpContext& op) {
  TRY_BIND((value, cache, start, out),
           op.args<Tensor, Tensor, std::int64_t, Out>({"value", "cache", "start_pos", "out"}));
  for (const Tensor* t : {&value, &cache}) {
    TRY(check_float(op, *t));
  }
  TRY(check_cache_write(op, value, cache, start));
  TRY(write_caches(op, nullptr, nullptr, value, cache, start));
  // The output stands for the cache. The exporter gives it one element where nobody reads it.
  if (!(op.bound(out) == cache.shape)) return {};
  TRY(op.set_shape(out, cache.shape));
  return convert(op, cache, out);
}

Status sdpa_with_kv_cache(OpContext& op) {
  TRY_BIND((query, key, value, key_cache, value_cache, start, length, mask, dropout, is_causal, scale, out),
           op.args<Tensor, Tensor, Tensor, Tensor, Tensor, std::int64_t, Ignored, std::optional<Tensor>, Ignored,
                   std::optional<bool>, std::optional<Number>, Out>({"query", "key", "value", "key_cache",
                                                                     "value_cache", "start_pos", "seq_len", "attn_mask",
                                                                     "dropout_p", "is_causal", "scale", "out"}));
  Attention a{.query = query, .key = key_cache, .value = value_cache, .mask = mask, .out = out, .axes = kCacheAxes};
  TRY(check(op, a));
  TRY(reserve(op, a));
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

Status custom_sdpa(OpContext& op) {
  TRY_BIND((query, key_cache, value_cache, start, mask, dropout, is_causal, scale, out),
           op.args<Tensor, Tensor, Tensor, std::int64_t, std::optional<Tensor>, Ignored, std::optional<bool>,
                   std::optional<Number>, Out>({"query", "key_cache", "value_cache", "start_pos", "attn_mask",
                                                "dropout_p", "is_causal", "scale", "out"}));
  Attention a{.query = query, .key = key_cache, .value = value_cache, .mask = mask, .out = out, .axes = kCacheAxes};
  TRY(check(op, a));
  TRY(reserve(op, a));
  TRY(see_cache(op, a, start, is_causal));
  return attend(op, a, scale);
}

Status sdpa(OpContext& op) {
  TRY_BIND((query, key, value, mask, scale, out),
           op.args<Tensor, Tensor, Tensor, std::optional<Tensor>, std::optional<Number>, Out>(
               {"q", "k", "v", "attn_mask", "scale", "out"}));
  Attention a{.query = query, .key = key, .value = value, .mask = mask, .out = out, .axes = kHeadAxes};
  TRY(check(op, a));
  TRY(reserve(op, a));
  a.params.keys = narrow(key.shape[2]);
  TRY(read_mask(op, a));
  return attend(op, a, scale);
}

}  // namespace nibble::ops
