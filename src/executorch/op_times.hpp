// The GPU time of each op, for ExecuTorch's event tracer.
#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include <span>

#include "nibble/nibble.hpp"

namespace nibble {

/// An event per op: its name with the node's number, because the Inspector wants each name once in a call. It begins
/// with the op's first dispatch and has the sum of their times; the kernels are its metadata.
void log_op_times(::executorch::runtime::EventTracer& tracer, std::span<const DispatchTime> dispatches);

}  // namespace nibble
