// GPU times by timestamp queries: one pass per dispatch.
#pragma once

#include <vector>

#include "gpu/readback.hpp"

namespace nibble::gpu {

struct Timer {
  static constexpr std::uint32_t kQueriesPerSet = 4096;  ///< WebGPU's limit

  std::vector<QuerySet> sets;
  Buffer resolved;
  Readback readback;
  std::uint32_t queries = 0;
  double submitted = 0;  ///< when the first of them was, see now_us()
  double done = 0;       ///< when all were

  Status make(Device& device, std::size_t dispatches);
  /// Where the n-th dispatch's pass writes its timestamps.
  WGPUPassTimestampWrites writes(std::size_t dispatch) const;
  /// After the passes: copies the timestamps to the readback buffer.
  void encode(const Functions& call, WGPUCommandEncoder encoder) const;
  /// When all is done: the first and the last stamp of each dispatch, in ticks.
  Result<std::vector<std::uint64_t>> read(Device& device);
  /// Differences are taken of whole numbers, because a double holds no such large time to the nanosecond.
  static double microseconds(Device& device, std::uint64_t from, std::uint64_t to);
};

}  // namespace nibble::gpu
