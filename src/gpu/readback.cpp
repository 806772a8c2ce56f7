#include "gpu/readback.hpp"

#include <algorithm>

namespace nibble::gpu {

Status Readback::make(Device& device, std::uint64_t bytes) {
  TRY_ASSIGN(owned_,
             device.make_buffer(std::max<std::uint64_t>(bytes, 16), WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst,
                                fmt::format("making a readback buffer of {} bytes", bytes)));
  use(owned_.get(), Mode::read);
  return {};
}

Result<std::span<const std::byte>> Readback::wait(Device& device, Submission submission) {
  device.wait(submission);
  TRY_ASSIGN(const auto bytes, take(device));
  return bytes;
}

}  // namespace nibble::gpu
