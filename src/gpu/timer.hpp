// GPU times by timestamp queries: one pass per dispatch.
#pragma once

#include <vector>

#include "gpu/executor.hpp"

namespace nibble::gpu {

struct Executor::Timer {
  static constexpr std::uint32_t kQueriesPerSet = 4096;  ///< the most that WebGPU has

  std::vector<QuerySet> sets;
  Buffer resolved;
  Readback readback;
  std::uint32_t queries = 0;

  Status make(Device& device, std::size_t dispatches);
  /// The stamps of the n-th dispatch's pass.
  WGPUPassTimestampWrites writes(std::size_t dispatch) const;
  /// After the passes: the stamps go to the readback buffer.
  void encode(WGPUCommandEncoder encoder) const;
};

}  // namespace nibble::gpu
