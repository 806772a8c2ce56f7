// A buffer that the GPU copies results into and the host reads.
#pragma once

#include <atomic>

#include "gpu/device.hpp"

namespace nibble::gpu {

class Readback {
 public:
  Status make(Device& device, std::uint64_t bytes);
  WGPUBuffer buffer() const { return buffer_.get(); }

  /// Starts to map the first `bytes` bytes. Call it after the submission that writes them, inside an ErrorScope.
  void request(Device& device, std::uint64_t bytes);
  /// Waits for a submission and gives the requested bytes, readable until release().
  Result<std::span<const std::byte>> wait(Device& device, Submission submission);
  void release(Device& device);

 private:
  Buffer buffer_;
  std::uint64_t bytes_ = 0;
  /// 0 until the map callback ran, which may be on any thread that polls the device.
  std::atomic<std::uint32_t> answer_ = 0;
};

}  // namespace nibble::gpu
