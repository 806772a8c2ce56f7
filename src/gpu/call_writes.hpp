// How the inputs of a call get to the GPU. Buffers that the host can map are written while no call uses them: they are
// asked for again when a call is submitted, together with what is read back, so that the next one waits for nothing.
// It pays for a single number too: a call with one id takes 0.8 of one with copies on lavapipe. All else goes through
// the queue.
#pragma once

#include <vector>

#include "gpu/mapping.hpp"
#include "plan/layout.hpp"

namespace nibble::gpu {

class CallWrites {
 public:
  void make(Device& device, const Layout& layout, std::span<const WGPUBuffer> buffers);

  /// Begins with nothing. An error if the device is lost.
  Status begin();
  /// Where to write an input; null if it goes through the queue: add() it.
  Result<std::byte*> memory(std::size_t input);
  /// `data` stays until write().
  void add(std::size_t input, const void* data, std::uint64_t bytes) { queued_.push_back({input, data, bytes}); }
  /// Hands over what was added.
  Status write();

  /// Before anything is submitted that uses the inputs.
  void release();
  /// After the call's last submission, inside an ErrorScope: starts to map for the next call.
  void request();

  /// How many inputs were written without a copy so far.
  std::uint64_t mapped() const { return mapped_; }

 private:
  struct Queued {
    std::size_t input = 0;
    const void* data = nullptr;
    std::uint64_t bytes = 0;
  };

  Device* device_ = nullptr;
  const Layout* layout_ = nullptr;
  std::span<const WGPUBuffer> buffers_;
  std::vector<Mapping> mappings_;  ///< per input; without a buffer if it is not mapped
  std::vector<Queued> queued_;
  std::uint64_t mapped_ = 0;
};

}  // namespace nibble::gpu
