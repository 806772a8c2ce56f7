// A buffer while the host reads or writes it.
#pragma once

#include <atomic>
#include <memory>

#include "gpu/device.hpp"

namespace nibble::gpu {

class Mapping {
 public:
  enum class Mode : std::uint8_t { read, write };

  /// Of a buffer that lives longer; its first `mapped` bytes are mapped already.
  void use(WGPUBuffer buffer, Mode mode, std::uint64_t mapped = 0);
  WGPUBuffer buffer() const { return buffer_; }

  /// Starts to map the first `bytes` bytes. Call it after the submission that uses them, inside an ErrorScope.
  void request(Device& device, std::uint64_t bytes);
  /// Whether request() was called, and release() was not.
  bool is_requested() const { return is_requested_; }
  /// The requested bytes, when the submission has been waited for: they may be used until release().
  Result<std::span<std::byte>> take(Device& device);
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

  std::byte* range(Device& device) const;

  WGPUBuffer buffer_ = nullptr;
  Mode mode_ = Mode::read;
  std::uint64_t bytes_ = 0;
  bool is_requested_ = false;
  std::unique_ptr<Answer, Drop> answer_;
};

}  // namespace nibble::gpu
