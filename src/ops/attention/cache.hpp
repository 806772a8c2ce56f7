// KV caches [batch, position, head, element].
#pragma once

#include "ops/checks.hpp"

namespace nibble::ops {

/// Whether `count` positions from `start` on lie in `cache`.
Status check_positions(const Lowering& op, std::int64_t count, const Tensor& cache, std::int64_t start);
/// Whether `value` may be written to `cache` at position `start`.
Status check_cache_write(Lowering& op, const Tensor& value, const State& cache, std::int64_t start);

/// Writes the rows of `value` (and of `key`) to their caches at position `start`.
Status write_caches(Lowering& op, const Tensor* key, const State* key_cache, const Tensor& value,
                    const State& value_cache, std::int64_t start);

}  // namespace nibble::ops
