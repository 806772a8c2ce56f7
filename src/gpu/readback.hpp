// A buffer that the GPU copies results into and the host reads.
#pragma once

#include <atomic>
#include <memory>

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
  /// What the map callback writes. A call that failed may leave a callback behind that comes when this is gone, so the
  /// two of them own it.
  struct Answer {
    std::atomic<std::uint32_t> status = 0;  ///< 0 until the callback ran, on any thread that polls the device
    std::atomic<std::uint32_t> owners = 1;
    void drop() {
      if (owners.fetch_sub(1) == 1) delete this;
    }
  };
  struct Drop {
    void operator()(Answer* answer) const { answer->drop(); }
  };

  Buffer buffer_;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<Answer, Drop> answer_;
};

}  // namespace nibble::gpu
