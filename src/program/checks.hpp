// What both doors share while they read a FlatBuffer that nobody has checked yet.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "graph/size.hpp"

namespace nibble {

/// Tables and strings of a FlatBuffer may be shared by many references, so a small file can describe a graph of any
/// size. Everything that is copied out of a file is paid from its budget, a small multiple of the file's bytes.
class Budget {
 public:
  explicit Budget(std::uint64_t file_bytes) : file_bytes_(file_bytes), left_(Size(file_bytes) * 8 + 4096) {}

  Status spend(Size bytes) {
    left_ = left_ - bytes;
    if (left_.valid()) return {};
    return fail(ErrorCode::invalid_program,
                "the lists and names of the program add up to more than 8 times the {} bytes that hold them",
                file_bytes_);
  }

 private:
  std::uint64_t file_bytes_;
  Size left_;
};

/// Bytes at an address that fits every scalar: the given ones, or a copy of them.
class AlignedBytes {
 public:
  static Result<AlignedBytes> of(std::span<const std::byte> bytes, std::string_view what);
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte[]> copy_;
  std::span<const std::byte> bytes_;
};

/// Room for `count` elements, or an error where std::vector would end the process.
template <class T>
Status reserve(std::vector<T>& vector, std::size_t count, std::string_view what) {
  const Size bytes = Size(count) * sizeof(T);
  void* probe = bytes.fits(PTRDIFF_MAX) ? ::operator new(bytes.unchecked(), std::nothrow) : nullptr;
  if (probe == nullptr) return fail(ErrorCode::out_of_memory, "there is no memory for the {} {}", count, what);
  ::operator delete(probe);
  vector.reserve(count);
  return {};
}

/// An absent vector is an empty one.
template <class T>
std::size_t length(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

/// Element `index`, which is in range. The verifier checks where a vector's length stands, but not whether numbers of
/// 64 bits after it are aligned.
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

/// The number at `offset`, which lies inside `bytes`. Files and all hosts are little endian.
template <class T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// "56 48 30 30": the first bytes of something that should have been something else.
std::string hex(std::span<const std::byte> bytes);

/// A name that is there, valid UTF-8, free of control characters and not absurdly long.
Result<std::string_view> read_name(const flatbuffers::String* text, std::string_view what);

/// How many bytes the UTF-8 character at the start of `text` has; 0 when it is not valid.
std::size_t utf8_length(std::string_view text);

/// The tensor's bytes. Every product of its dimensions, in any order and without its zeros, fits 63 bits.
Result<std::uint64_t> tensor_bytes(const Shape& shape, DType dtype, std::string_view what);

/// Sizes come from a file as `count` numbers.
Status check_rank(std::size_t count, std::string_view what);

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
