// Constants from where they lie to GPU buffers, in bounded chunks.
#pragma once

#include <functional>
#include <span>

#include "gpu/device.hpp"
#include "plan/constant_source.hpp"

namespace nibble::gpu {

/// Bytes uploaded so far, and in all.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// How far the host may run ahead of the GPU.
struct UploadPace {
  /// wgpu keeps a copy of all that is written until the GPU has taken it, so this bounds the host memory that an upload
  /// needs beside the buffers themselves.
  std::uint64_t max_pending = 0;
  bool wait_at_end = false;
};

/// A model is loaded when it is on the GPU. More at a time is not faster.
inline constexpr UploadPace kWeightsPace{std::uint64_t{4} << 20, true};
/// Calls come after it on the queue, so nobody has to wait for a session's state unless it is large.
inline constexpr UploadPace kStatePace{std::uint64_t{32} << 20, false};

/// Does those of `uploads` whose buffer is one of ours: `buffers[id]` is null for the others. The buffers were just
/// made, so they are zero, and zeros are not written.
Status upload(Device& device, ConstantSource& source, std::span<const Upload> uploads,
              std::span<const WGPUBuffer> buffers, UploadPace pace, const Progress& progress);

}  // namespace nibble::gpu
