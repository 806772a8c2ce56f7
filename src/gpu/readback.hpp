// A buffer that results are copied to, for the host.
#pragma once

#include "gpu/mapping.hpp"

namespace nibble::gpu {

class Readback : public Mapping {
 public:
  Status make(Device& device, std::uint64_t bytes);
  /// Waits for a submission and gives the requested bytes, readable until release().
  Result<std::span<const std::byte>> wait(Device& device, Submission submission);

 private:
  Buffer owned_;
};

}  // namespace nibble::gpu
