// Counts Nibble's own allocations, and lets one of them fail. wgpu is Rust and does not come here; a driver in C++ may,
// so only calls from this program's own code count, and those from the C++ library that it calls.
#pragma once

namespace nibble::test {

struct Allocations {
  bool counting = false;
  long counted = 0;
  long fail_at = 0;  ///< this one of those counted fails
};

/// Of this thread.
extern thread_local Allocations allocations;

}  // namespace nibble::test
