// Bytes of a program that nobody else changes: what lies in a file or in a caller's memory is copied before it is
// checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "graph/status.hpp"

namespace nibble {

class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = default;
  ByteSource& operator=(const ByteSource&) = default;
  virtual ~ByteSource() = default;

  virtual std::uint64_t size() const = 0;
  /// Copies the bytes from `offset` on.
  virtual Status read(std::uint64_t offset, std::span<std::byte> to) const = 0;
};

/// Bytes in memory.
class MemoryBytes final : public ByteSource {
 public:
  explicit MemoryBytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Status read(std::uint64_t offset, std::span<std::byte> to) const override;

 private:
  std::span<const std::byte> bytes_;
};

/// Bytes at an address that is aligned for every scalar.
class AlignedBytes {
 public:
  /// The given ones, or a copy. Nobody may change them meanwhile.
  static Result<AlignedBytes> of(std::span<const std::byte> bytes, std::string_view what);
  static Result<AlignedBytes> copy(const ByteSource& source, std::uint64_t offset, std::uint64_t size,
                                   std::string_view what);
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte[]> copy_;
  std::span<const std::byte> bytes_;
};

/// An error unless the bytes from `offset` on are among `size`.
Status check_range(std::uint64_t offset, std::uint64_t count, std::uint64_t size, std::string_view what);

}  // namespace nibble
