#include "plan/copy.hpp"

#include "wgsl.hpp"

namespace nibble {

Status copy_words(Lowering& op, BufferRef from, BufferRef to, std::uint64_t bytes) {
  const auto count = Size(bytes).div_up(16).unchecked();
  return op.dispatch({.shader = wgsl::copy,
                      .bind = {{{"source", Access::read, Elem::words4, 4}, from},
                               {{"target_", Access::read_write, Elem::words4, 4}, to}},
                      .params = wgsl::CopyParams{static_cast<std::uint32_t>(count)},
                      .threads = count});
}

}  // namespace nibble
