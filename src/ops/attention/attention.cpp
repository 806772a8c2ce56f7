// Attention as one streaming pass with an online softmax: no score matrix is ever in memory. Where the rows alone are
// too few to fill the device (a decode step), the keys are cut into parts that a second dispatch merges.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/attention/cache.hpp"
#include "ops/families.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

constexpr std::int64_t kLargestSize = 256;

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
  Attention(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Float<Tensor>>& added, Out& result,
            Axes order)
      : query(q), key(k), value(v), mask(added ? &*added : nullptr), out(result), axes(order) {}

  const Tensor& query;
  const Tensor& key;
  const Tensor& value;
  const Tensor* mask;  ///< null where there is none
  Out& out;
  Axes axes;
  wgsl::AttentionParams params{.parts = 1};
};

// On a CPU adapter a barrier is a context switch of every lane, and workgroup memory is just memory: threads work
// alone.
constexpr Variant kAttentionVariants[] = {
    Variant("row", {.max_rows = 1}, {Adapters::cpu}, {1, 1, 8}, &wgsl::attention_row,
            "one row is all that shares a key head: three idle ones of four would cost"),
    Variant("rows", {}, {Adapters::cpu}, {4, 1, 8}, &wgsl::attention_rows,
            "a thread loads a key once for four rows, with no barrier"),
    Variant("tile", {}, {}, {8, 1, 64}, &wgsl::attention_tile, "a workgroup reads a key once for eight rows"),
};

/// How a variant shares out the keys. Parts are few on a CPU adapter, for merging them is not free.
struct Split {
  std::uint32_t units;      ///< tiles and parts that fill the device: where there are fewer tiles, keys are split
  std::uint32_t step;       ///< keys at a time
  std::uint32_t part_keys;  ///< with fewer keys a part is not worth its merge
  bool sums_in_result;      ///< the result holds sums on the way, so it must be float32
  std::uint32_t rounds;     ///< of a thread's loops for each step, and for each vec4 of a row in it
  std::uint32_t quad_rounds;

  /// Keys that one part may have.
  std::uint32_t max_part_keys(const DeviceProfile& profile, std::uint32_t quads) const {
    if (profile.kind != AdapterKind::cpu) return std::numeric_limits<std::uint32_t>::max();
    return std::max(1U, narrow(DeviceProfile::kMaxRounds / (rounds + quad_rounds * quads))) * step;
  }
};
constexpr std::array<Split, std::size(kAttentionVariants)> kSplits{
    {{128, 8, 16, true, 2, 2}, {128, 8, 16, true, 2, 2}, {512, 64, 64, false, 700, 1}}};

constexpr std::uint32_t kDirect = 1;  // keys are not split, and rows can be written by themselves

constexpr Variant kKeys[] = {
    Variant("whole", {.traits = kDirect}, {}, {}, {}, "there are rows enough to fill the device"),
    Variant("parts", {.none_of = kDirect}, {}, {}, {}, "keys are cut into parts that a second dispatch merges"),
};

constexpr Choice kAttentionChoice{"attention", kAttentionVariants};
constexpr Choice kKeysChoice{"attention_keys", kKeys};

bool is_aligned(const Attention& a) { return a.params.size % 4 == 0; }

/// Whether a call whose keys are not split writes the result itself, without a merge: a row that is no whole number of
/// vec4s cannot be stored by itself.
bool writes_result(const Attention& a, const Split& split) {
  return is_aligned(a) && (!split.sums_in_result || a.out.dtype == DType::f32);
}

Status run_rows(Lowering& op, Attention& a, const Variant& variant, const BufferArg& result) {
  auto& p = a.params;
  p.in_parts = result.buffer.kind == BufferRef::Kind::scratch ? 1 : 0;
  Kernel kernel{.shader = *variant.shader,
                .bind = {op.read("query", a.query), op.read("key", a.key), op.read("value", a.value), result},
                .params = p,
                .threads = (Size(p.batch) * p.key_heads * p.tiles * p.parts).unchecked(),
                .workgroup = variant.tile.threads,
                .whole_groups = true,
                .slots = {{"load", is_aligned(a) ? wgsl::load_aligned_rows : wgsl::load_any_rows},
                          {"mask", a.mask ? wgsl::with_mask : wgsl::no_mask}}};
  if (variant.shader == &wgsl::attention_tile) kernel.threads *= variant.tile.threads;
  if (a.mask) kernel.bind.push_back(op.read("mask", *a.mask));
  return op.dispatch(kernel);
}

Status run_merge(Lowering& op, const Attention& a, const Scratch& parts) {
  const auto& p = a.params;
  const auto quads = quads_of(a.out.shape);
  const wgsl::AttentionMergeParams params{quads, narrow(a.out.numel()), p.size, p.parts, p.keys, p.quads};
  return op.dispatch({.shader = wgsl::attention_merge,
                      .bind = {parts.read("partial", Elem::f32), op.write("result", a.out)},
                      .params = params,
                      .threads = quads,
                      .overrides = {{"ALIGNED", flag(is_aligned(a))}}});
}

/// Cuts the keys of this call into parts, as few as fill the device and are short enough.
void split_keys(wgsl::AttentionParams& p, const Split& split, std::uint32_t tile, std::uint32_t max_part_keys) {
  p.tiles = narrow((Size(p.rows) * p.group).div_up(tile).unchecked());
  const std::uint64_t tiles = std::max<std::uint64_t>(1, std::uint64_t{p.batch} * p.key_heads * p.tiles);
  const auto most = std::max<std::uint64_t>(1, p.keys / split.part_keys);
  const auto parts =
      std::max(std::clamp<std::uint64_t>(split.units / tiles, 1, most), Size(p.keys).div_up(max_part_keys).unchecked());
  p.part_keys = narrow(Size(p.keys).div_up(parts).align_up(split.step).unchecked());
  p.parts = std::max(1U, narrow(Size(p.keys).div_up(std::max(1U, p.part_keys)).unchecked()));
}

/// What never changes from call to call.
Status check(const Lowering& op, Attention& a) {
  for (const Tensor* t : {&a.query, &a.key, &a.value, static_cast<const Tensor*>(&a.out)}) {
    if (t->rank() != 4) return op.fail("{} must have 4 dimensions, but its shape is {}", t->arg, t->shape);
  }
  const Shape& q = a.query.shape;
  const Shape& k = a.key.shape;
  if (q[3] < 1 || q[3] > kLargestSize) {
    return op.fail("heads have {} elements, but 1 to {} are supported", q[3], kLargestSize);
  }
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
Status attend(Lowering& op, Attention& a, std::optional<Number> scale) {
  TRY(op.set_shape(a.out, a.query.shape));
  auto& p = a.params;
  p.rows = narrow(a.query.shape[a.axes.rows]);
  p.scale = static_cast<float>(scale ? scale->value : 1 / std::sqrt(static_cast<double>(p.size)));
  p.query_strides = strides_of(a.query.shape, a.axes);
  p.key_strides = strides_of(a.key.shape, a.axes);

  // Rows of several heads share a key head; in a cache their number is the program's.
  const auto most_rows = Size::of(op.bound(a.query)).unchecked() / p.size;
  // Where there are none, nothing runs, whatever is chosen.
  Extent rows = op.extent(std::uint64_t{std::max(1U, p.rows)} * p.group, most_rows, {&a.query});
  if (op.is_fixed(a.key) && a.axes.heads == kCacheAxes.heads) rows.least = std::min<std::uint64_t>(rows.now, p.group);
  const Variant& variant = op.choose(kAttentionChoice, {.rows = rows, .width = {p.size}});
  const Split& split = kSplits[static_cast<std::size_t>(&variant - kAttentionVariants)];
  const auto max_part_keys = split.max_part_keys(op.profile(), p.quads);
  split_keys(p, split, variant.tile.rows, max_part_keys);
  const auto most_keys = static_cast<std::uint64_t>(op.bound(a.key)[a.axes.rows]);
  const auto most_parts = most_keys / split.part_keys;
  const bool is_direct = writes_result(a, split);
  const Variant& keys =
      op.choose(kKeysChoice, Facts{}.trait(kDirect, is_direct && p.parts == 1, is_direct && most_parts >= 2));
  if (&keys == kKeys) return run_rows(op, a, variant, op.write("result", a.out));
  // Calls in parts have at most `units` tiles and parts, but where no part may have all keys.
  const auto in_parts = std::min((Size(most_rows) * std::max<std::uint64_t>(1, most_parts)).unchecked(),
                                 std::uint64_t{split.units} * variant.tile.rows);
  const auto least_parts = Size(most_keys).div_up(max_part_keys).unchecked();
  const auto always =
      is_direct && least_parts <= 1 ? Size(0) : Size(most_rows) * std::max<std::uint64_t>(1, least_parts);
  TRY_ASSIGN(const auto scratch, op.scratch(Size(std::max(in_parts, always.unchecked())) * (p.quads + 1) * 16));
  TRY(run_rows(op, a, variant, scratch.write("result", Elem::f32)));
  return run_merge(op, a, scratch);
}

/// How the mask lies over batch, heads, rows and keys: missing and single dimensions are repeated.
Status read_mask(const Lowering& op, Attention& a) {
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
Status see_cache(const Lowering& op, Attention& a, std::int64_t start, std::optional<bool> is_causal) {
  const std::int64_t rows = a.query.shape[1];
  TRY(check_positions(op, rows, a.key, start));
  if (a.query.shape[2] != op.bound(a.query)[2]) {
    return op.fail("{} has {} heads, but the program is made for {}", a.query.arg, a.query.shape[2],
                   op.bound(a.query)[2]);
  }
  if (a.mask && is_causal.value_or(false)) return op.fail("{} and is_causal exclude each other", a.mask->arg);
  a.params.keys = narrow(a.mask ? a.key.shape[1] : start + rows);
  a.params.first = narrow(start);
  a.params.causal = !a.mask && is_causal.value_or(true) ? 1 : 0;
  return read_mask(op, a);
}

Status sdpa_with_kv_cache(Lowering& op, const Float<Tensor>& query, const Float<Tensor>& key,
                          const Float<Tensor>& value, const Float<State>& key_cache, const Float<State>& value_cache,
                          LiveInt start, Ignored, const std::optional<Float<Tensor>>& mask, Ignored,
                          std::optional<bool> is_causal, std::optional<Number> scale, Float<Out>& out) {
  Attention a(query, key_cache, value_cache, mask, out, kCacheAxes);
  TRY(check(op, a));
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
  TRY(check(op, a));
  TRY(see_cache(op, a, start, is_causal));
  return attend(op, a, scale);
}

Status sdpa(Lowering& op, const Float<Tensor>& q, const Float<Tensor>& k, const Float<Tensor>& v,
            const std::optional<Float<Tensor>>& mask, std::optional<Number> scale, Float<Out>& out) {
  Attention a(q, k, v, mask, out, kHeadAxes);
  TRY(check(op, a));
  a.params.keys = narrow(k.shape[2]);
  TRY(read_mask(op, a));
  return attend(op, a, scale);
}

constexpr Op kAttentionOps[] = {
    op<sdpa_with_kv_cache>("sdpa_with_kv_cache.default",
                           "query, key, value, key_cache, value_cache, start_pos, seq_len, attn_mask, dropout_p, "
                           "is_causal, scale -> out",
                           "head sizes from 1 to 256, any grouping of heads, any context length"),
    op<custom_sdpa>("llama.custom_sdpa.default",
                    "query, key_cache, value_cache, start_pos, attn_mask, dropout_p, is_causal, scale -> out",
                    "as sdpa_with_kv_cache, without the write"),
    op<sdpa>(
        "et_vk.sdpa.default", "q, k, v, attn_mask, scale -> out",
        "head sizes from 1 to 256; masks that broadcast; a row whose keys are all masked by infinity gives NaN, as "
        "in torch"),
};

}  // namespace

const Family kAttention{"attention", kAttentionOps, {&kAttentionChoice, &kKeysChoice}};

}  // namespace nibble::ops
