// A plain copy of bytes from buffer to buffer, as a dispatch (so that a call stays one compute pass).
#pragma once

#include "plan/op_context.hpp"

namespace nibble {

/// Copies at least `bytes` bytes, in whole vec4s.
Status copy_words(OpContext& op, BufferId from, BufferId to, std::uint64_t bytes);

}  // namespace nibble
