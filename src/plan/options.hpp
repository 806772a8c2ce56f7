// What a plan may depend on beside the graph and the device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/tuning.hpp"

namespace nibble {

struct PlanOptions {
  /// Constants larger than this are split into shards; 0 means the device's own limits. A lower one makes sharding
  /// testable on any device.
  std::uint64_t max_shard_bytes = 0;
  /// KV caches in half precision: half their memory, and results that differ by about a thousandth.
  bool f16_cache = false;
  /// Names of passes (see graph/passes) that shall not run.
  std::vector<std::string> without_passes = {};
  /// Kernels that shall be used where they are right, as `choice=variant`.
  std::vector<std::string> variants = {};
  /// Kernels that were measured to be best.
  std::vector<TuningRow> tuning = {};
};

}  // namespace nibble
