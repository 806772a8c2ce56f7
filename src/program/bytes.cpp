#include "program/bytes.hpp"

#include <cstring>
#include <limits>
#include <new>

#include "graph/size.hpp"

namespace nibble {

namespace {

constexpr std::size_t kAlignment = 8;

}  // namespace

Status check_range(std::uint64_t offset, std::uint64_t count, std::uint64_t size, std::string_view what) {
  if ((Size(offset) + count).fits(size)) return {};
  return fail(ErrorCode::invalid_program, "{} has {} bytes, but {} from byte {} on are wanted", what, size, count,
              offset);
}

Status MemoryBytes::read(std::uint64_t offset, std::span<std::byte> to) const {
  TRY(check_range(offset, to.size(), bytes_.size(), "the program"));
  if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
  return {};
}

Result<AlignedBytes> AlignedBytes::of(std::span<const std::byte> bytes, std::string_view what) {
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % kAlignment != 0) {
    return copy(MemoryBytes(bytes), 0, bytes.size(), what);
  }
  AlignedBytes result;
  result.bytes_ = bytes;
  return result;
}

Result<AlignedBytes> AlignedBytes::copy(const ByteSource& source, std::uint64_t offset, std::uint64_t size,
                                        std::string_view what) {
  // A size that a file lies about is told before there is memory for it.
  TRY(check_range(offset, size, source.size(), "the program"));
  AlignedBytes result;
  if (size <= std::numeric_limits<std::ptrdiff_t>::max()) result.copy_.reset(new (std::nothrow) std::byte[size]);
  if (!result.copy_) return fail(ErrorCode::out_of_memory, "there is no memory for the {} bytes of {}", size, what);
  const std::span to(result.copy_.get(), static_cast<std::size_t>(size));
  TRY(source.read(offset, to));
  result.bytes_ = to;
  return result;
}

}  // namespace nibble
