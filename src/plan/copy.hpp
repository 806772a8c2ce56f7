// A plain copy of bytes from buffer to buffer, as a dispatch (so that a call stays one compute pass).
#pragma once

#include "plan/lowering.hpp"

namespace nibble {

/// Copies at least `bytes` bytes, in whole vec4s.
Status copy_words(Lowering& op, BufferRef from, BufferRef to, std::uint64_t bytes);

}  // namespace nibble
