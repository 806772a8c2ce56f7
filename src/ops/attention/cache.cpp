#include "ops/attention/cache.hpp"

#include "ops/families.hpp"
#include "ops/move/move.hpp"

namespace nibble::ops {

Status check_positions(const Lowering& op, std::int64_t count, const Tensor& cache, std::int64_t start) {
  if (start < 0) return fail_range(op, "start_pos is {}, but it must not be negative", start);
  if (start > cache.shape[1] || count > cache.shape[1] - start) {
    return fail_range(op, "start_pos {} + {} new positions reach past the cache's {}", start, count, cache.shape[1]);
  }
  return {};
}

Status check_cache_write(Lowering& op, const Tensor& value, const State& cache, std::int64_t start) {
  if (cache.rank() != 4 || value.rank() != 4 ||
      !(cache.shape == Shape{value.shape[0], cache.shape[1], value.shape[2], value.shape[3]})) {
    return op.fail("{} has shape {}, which does not fit {} of shape {}", value.arg, value.shape, cache.arg,
                   cache.shape);
  }
  TRY(check_positions(op, value.shape[1], cache, start));
  op.use_rows(cache, 1, start + value.shape[1]);
  return {};
}

Status write_caches(Lowering& op, const Tensor* key, const State* key_cache, const Tensor& value,
                    const State& value_cache, std::int64_t start) {
  // WebGPU does not let a dispatch write one buffer by two bindings; the values are what stays.
  if (key != nullptr && op.is_alias(*key_cache, value_cache)) {
    TRY(write_caches(op, nullptr, nullptr, *key, *key_cache, start));
    key = nullptr;
  }
  // The caches' shape, which never changes, settles that of the rows.
  const auto row = narrow(value_cache.shape[2] * value_cache.shape[3]);
  const bool is_aligned = row % 4 == 0;
  std::uint64_t quads = quads_of(value.shape);
  if (!is_aligned && quads > 0) {
    const auto end = (value.shape[0] - 1) * value_cache.shape[1] + start + value.shape[1];
    quads = (static_cast<std::uint64_t>(end) * row + 3) / 4 - static_cast<std::uint64_t>(start) * row / 4;
  }
  Bindings bind{op.read("value", value), op.update("value_cache", value_cache)};
  if (key != nullptr) {
    bind.push_back(op.read("key", *key));
    bind.push_back(op.update("key_cache", *key_cache));
  }
  return op.dispatch({.shader = wgsl::cache_write,
                      .bind = bind,
                      .params = wgsl::CacheWriteParams{narrow(quads), row, narrow(value.shape[1]), narrow(start),
                                                       narrow(value_cache.shape[1])},
                      .threads = (key != nullptr ? 2 : 1) * quads,
                      // The last quad may reach past the cache, and what it would hold there is looked for.
                      .fits = is_aligned || value_cache.numel() % 4 == 0,
                      .overrides = {{"ALIGNED", flag(is_aligned)}},
                      .slots = {{"caches", key != nullptr ? wgsl::two_caches : wgsl::one_cache}}});
}

namespace {

Status update_cache(Lowering& op, const Float<Tensor>& value, const Float<State>& cache, LiveInt start, View& out) {
  TRY(check_cache_write(op, value, cache, start));
  TRY(write_caches(op, nullptr, nullptr, value, cache, start));
  // The output stands for the cache. The exporter gives it one element where nobody reads it.
  if (!(op.bound(out) == cache.shape)) return {};
  TRY(op.set_shape(out, cache.shape));
  return convert(op, cache, out);
}

constexpr Op kCacheOps[] = {
    op<update_cache>("update_cache.default", "value, cache, start_pos -> out",
                     "any head size and batch; a position past the end is an error"),
};

}  // namespace

const Family kCache{"cache", kCacheOps};

}  // namespace nibble::ops
