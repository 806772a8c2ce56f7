// How the dispatches of a call are cut into submissions: each is so short that a watchdog of the driver or the browser
// does not reset the GPU, and that a call which shall stop ends soon.
#pragma once

#include <vector>

#include "plan/kernel.hpp"

namespace nibble {

/// About how much a dispatch does: vec4s that it reads, writes or multiplies. At least one for each thread and buffer.
std::uint64_t work_of(const Kernel& kernel);

/// The work of one submission: a fifth of a second of a float32 product on llvmpipe with two cores, a second on
/// SwiftShader. For GPUs it is an estimate by their bandwidth.
std::uint64_t default_batch_work(const DeviceProfile& profile);

/// Cuts a list of dispatches in their order: `ends` gets the end of each batch. A batch has `most` work at most, or
/// else one dispatch, which pieces.hpp could not cut further.
void cut_batches(std::span<const Dispatch* const> dispatches, std::uint64_t most, std::vector<std::uint32_t>& ends);

}  // namespace nibble
