// A buffer that the host reads: one that results are copied to, or one that kernels write, where it can be mapped.
#pragma once

#include <atomic>
#include <memory>

#include "gpu/device.hpp"

namespace nibble::gpu {

class Readback {
 public:
  /// With a buffer of its own, to copy results to.
  Status make(Device& device, std::uint64_t bytes);
  /// With a buffer of others, which lives longer.
  void use(WGPUBuffer buffer);
  WGPUBuffer buffer() const { return buffer_; }

  /// Starts to map the first `bytes` bytes. Call it after the submission that writes them, inside an ErrorScope.
  void request(Device& device, std::uint64_t bytes);
  /// Waits for a submission and gives the requested bytes, readable until release().
  Result<std::span<const std::byte>> wait(Device& device, Submission submission);
  /// The same, when the submission has been waited for.
  Result<std::span<const std::byte>> take(Device& device);
  /// Ends the mapping, or what request() began; nothing if there is none.
  void release(Device& device);

 private:
  /// What the map callback writes. A call that failed may leave a callback behind that comes when this is gone, so the
  /// two of them own it.
  struct Answer {
    std::atomic<std::uint32_t> status = 0;  ///< 0 until the callback ran, on any thread that polls the device
    std::atomic<std::uint32_t> owners = 1;
    std::atomic<std::uintptr_t> request = 0;  ///< its number: an answer to an earlier one, given up, does not count
    void drop() {
      if (owners.fetch_sub(1) == 1) delete this;
    }
  };
  struct Drop {
    void operator()(Answer* answer) const { answer->drop(); }
  };

  Buffer owned_;
  WGPUBuffer buffer_ = nullptr;
  std::uint64_t bytes_ = 0;
  bool is_requested_ = false;
  std::unique_ptr<Answer, Drop> answer_;
};

}  // namespace nibble::gpu
