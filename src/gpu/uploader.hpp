// Constants from where they lie to GPU buffers, in bounded chunks.
#pragma once

#include <functional>
#include <span>

#include "gpu/device.hpp"
#include "plan/constant_source.hpp"

namespace nibble::gpu {

/// Bytes uploaded so far, and in all.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Does those of `uploads` whose buffer is one of ours: `buffers[id]` is null for the others.
Status upload(Device& device, ConstantSource& source, std::span<const Upload> uploads,
              std::span<const WGPUBuffer> buffers, const Progress& progress);

}  // namespace nibble::gpu
