// Copies constants from their source to GPU buffers, in bounded chunks.
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
  /// The engine keeps a copy of what is written until the GPU has it. So this limits the host memory that an upload
  /// needs.
  std::uint64_t max_pending = 0;
  bool wait_at_end = false;
};

/// For weights. Waits at the end, because a model counts as loaded once it is on the GPU. More pending bytes are not
/// faster.
inline constexpr UploadPace kWeightsPace{std::uint64_t{4} << 20, true};
/// For a session's state. Calls come later on the same queue, so there is no need to wait unless the state is large.
inline constexpr UploadPace kStatePace{std::uint64_t{32} << 20, false};

/// Whether all bytes are zero.
bool is_zero(std::span<const std::byte> bytes);

/// Runs the uploads whose buffer is in `buffers` (others are null). New buffers are zero, so all-zero chunks are
/// skipped.
Status upload(Device& device, ConstantSource& source, std::span<const Upload> uploads,
              std::span<const WGPUBuffer> buffers, UploadPace pace, const Progress& progress);

}  // namespace nibble::gpu
