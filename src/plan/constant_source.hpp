// Gives an executor the bytes of constants while it uploads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "graph/size.hpp"
#include "graph/status.hpp"

namespace nibble {

class ConstantSource {
 public:
  ConstantSource() = default;
  ConstantSource(const ConstantSource&) = delete;
  ConstantSource& operator=(const ConstantSource&) = delete;
  virtual ~ConstantSource() = default;

  /// Copies bytes of a constant (Graph::constants) from `offset` on.
  virtual Status read(std::uint32_t constant, std::uint64_t offset, std::span<std::byte> to) = 0;
  /// No more of this constant is read for now: what is held for it may go.
  virtual void close(std::uint32_t) {}
};

/// An error unless a constant of `length` bytes has `count` from `offset` on.
inline Status check_constant(std::uint32_t constant, std::uint64_t length, std::uint64_t offset, std::uint64_t count) {
  if ((Size(offset) + count).fits(length)) return {};
  return fail(ErrorCode::invalid_program, "constant {} has {} bytes, but {} from byte {} on are needed", constant,
              length, count, offset);
}

/// read(), where all bytes of the constant are in memory.
inline Status copy_constant(std::uint32_t constant, std::span<const std::byte> all, std::uint64_t offset,
                            std::span<std::byte> to) {
  TRY(check_constant(constant, all.size(), offset, to.size()));
  if (!to.empty()) std::memcpy(to.data(), all.data() + offset, to.size());
  return {};
}

}  // namespace nibble
