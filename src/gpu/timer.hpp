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

  Status make(Device& device, std::size_t dispatches);
  /// Where the n-th dispatch's pass writes its timestamps.
  WGPUPassTimestampWrites writes(std::size_t dispatch) const;
  /// After the passes: copies the timestamps to the readback buffer.
  void encode(const Functions& call, WGPUCommandEncoder encoder) const;
  /// When all is done: the microseconds of each dispatch.
  Result<std::vector<double>> read(Device& device);
};

}  // namespace nibble::gpu
