// The one kind of exception that occurs: others throw it where there is no memory. Nothing of ours throws, and the
// web's planner is compiled without exceptions, so this is for native code alone.
#pragma once

#include <new>
#include <stdexcept>

#include "nibble/types.hpp"

namespace nibble {

/// The text is so short that std::string needs no memory for it.
inline Error no_memory() noexcept { return {ErrorCode::out_of_memory, "out of memory"}; }

/// What `call` gives; where its memory ran out, what `otherwise` gives. A size that no memory could ever hold is a
/// std::length_error.
template <class Call, class Otherwise>
auto guarded(const Call& call, const Otherwise& otherwise) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return otherwise();
  } catch (const std::length_error&) {
    return otherwise();
  }
}

/// A Result or Status. All entry points are guarded in this way.
template <class Call>
auto guarded(const Call& call) -> decltype(call()) {
  return guarded(call, []() -> decltype(call()) { return std::unexpected(no_memory()); });
}

}  // namespace nibble
