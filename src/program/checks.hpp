// Helpers to read FlatBuffers that are not checked yet: the container's and the blob's.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "graph/size.hpp"
#include "program/bytes.hpp"

namespace nibble {

/// Limits how much is copied out of a file, to a small multiple of its size. This is needed because many references in
/// a FlatBuffer may share one table or string, so a small file can describe a graph of any size.
class Budget {
 public:
  /// `what` is paid for.
  explicit Budget(std::uint64_t file_bytes, std::string_view what = "the lists and names of the program")
      : what_(what), file_bytes_(file_bytes), left_(Size(file_bytes) * 8 + 4096) {}

  Status spend(Size bytes) {
    left_ = left_ - bytes;
    if (left_.valid()) return {};
    return fail(ErrorCode::invalid_program, "{} add up to more than 8 times the {} bytes that hold them", what_,
                file_bytes_);
  }

 private:
  std::string_view what_;
  std::uint64_t file_bytes_;
  Size left_;
};

/// Reserves room for `count` elements, or fails where std::vector would end the process.
template <class T>
Status reserve(std::vector<T>& vector, std::size_t count, std::string_view what) {
  const Size bytes = Size(count) * sizeof(T);
  void* probe = bytes.fits(PTRDIFF_MAX) ? ::operator new(bytes.unchecked(), std::nothrow) : nullptr;
  if (probe == nullptr) return fail(ErrorCode::out_of_memory, "there is no memory for the {} {}", count, what);
  ::operator delete(probe);
  vector.reserve(count);
  return {};
}

/// The length of a vector; 0 if it is absent.
template <class T>
std::size_t length(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

/// Element `index`, which must be in range. Copies numbers, because the verifier does not check that 64-bit numbers in
/// a vector are aligned.
template <class T, class Index>
auto get(const flatbuffers::Vector<T>* vector, Index index) {
  if constexpr (std::is_arithmetic_v<T>) {
    T value;
    std::memcpy(&value, vector->Data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
    return value;
  } else {
    return vector->Get(static_cast<flatbuffers::uoffset_t>(index));
  }
}

/// The number at `offset`, which must lie inside `bytes`. Files and all hosts are little endian.
template <class T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// Bytes as "56 48 30 30", for errors.
std::string hex(std::span<const std::byte> bytes);

/// A name; it must not be empty or too long, and must be valid UTF-8 without control characters.
Result<std::string_view> read_name(const flatbuffers::String* text, std::string_view what);

/// How many bytes the UTF-8 character at the start of `text` has; 0 if it is not valid.
std::size_t utf8_length(std::string_view text);

/// The tensor's size in bytes. If it succeeds, every product of its dimensions, also without the zeros, fits 63 bits.
Result<std::uint64_t> tensor_bytes(const Shape& shape, DType dtype, std::string_view what);

/// Checks the number of dimensions that a file gives for a tensor.
Status check_rank(std::size_t count, std::string_view what);

Status check_flatbuffer_size(std::uint64_t bytes, std::string_view what);
Status check_flatbuffer_head(std::span<const std::byte> bytes, std::string_view identifier, std::string_view what);

/// Runs the FlatBuffers verifier, with limits that follow from the number of bytes.
template <class Root>
Result<const Root*> verified_root(std::span<const std::byte> bytes, const char* identifier, std::string_view what) {
  TRY(check_flatbuffer_head(bytes, identifier, what));
  flatbuffers::Verifier::Options limits;
  limits.max_depth = 64;
  // A table takes 4 bytes and a reference to it 4 more, so only shared tables can reach this.
  limits.max_tables = static_cast<flatbuffers::uoffset_t>(bytes.size() / 4 + 64);
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size(), limits);
  if (!verifier.VerifyBuffer<Root>(identifier)) {
    return fail(ErrorCode::invalid_program,
                "{} is damaged: its {} bytes are not a valid FlatBuffer (offsets, lengths or alignment are wrong)",
                what, bytes.size());
  }
  return flatbuffers::GetRoot<Root>(data);
}

}  // namespace nibble
