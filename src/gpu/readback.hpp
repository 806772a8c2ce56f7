// A buffer that the GPU copies results into and the host reads.
#pragma once

#include <atomic>

#include "gpu/device.hpp"

namespace nibble::gpu {

class Readback {
 public:
  Status make(Device& device, std::uint64_t bytes);
  WGPUBuffer buffer() const { return buffer_.get(); }

  /// Asks for the first `bytes` bytes, after the submission that writes them. Inside an ErrorScope.
  void request(std::uint64_t bytes);
  /// Waits for submission `index` and gives the bytes asked for, readable until release().
  Result<std::span<const std::byte>> wait(Device& device, WGPUSubmissionIndex index);
  void release();

 private:
  Buffer buffer_;
  std::uint64_t bytes_ = 0;
  /// 0 while the answer is out. Any thread that polls the device may bring it.
  std::atomic<std::uint32_t> answer_ = 0;
};

}  // namespace nibble::gpu
