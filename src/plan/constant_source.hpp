// Gives an executor the bytes of constants while it uploads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nibble/types.hpp"

namespace nibble {

class ConstantSource {
 public:
  ConstantSource() = default;
  ConstantSource(const ConstantSource&) = delete;
  ConstantSource& operator=(const ConstantSource&) = delete;
  virtual ~ConstantSource() = default;

  /// All bytes of a constant (Graph::constants); readable until close().
  virtual Result<std::span<const std::byte>> open(std::uint32_t constant) = 0;
  /// The bytes up to `end` are no longer needed: their pages may be released.
  virtual void consumed(std::uint32_t constant, std::uint64_t end) = 0;
  virtual void close(std::uint32_t constant) = 0;
};

}  // namespace nibble
