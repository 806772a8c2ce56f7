// A memory-mapped file. POSIX only: the web build reads files in its own way.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.hpp"
#include "plan/constant_source.hpp"

namespace nibble {

class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Releases the memory of the pages from the one with byte `begin` up to, but not including, the one with byte `end`.
  /// If they are used again, they are read from the file again.
  void release(std::size_t begin, std::size_t end) const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

/// The constants of a graph, read from a mapped file. Their pages are released as they are consumed.
class FileConstants final : public ConstantSource {
 public:
  FileConstants(std::shared_ptr<const MappedFile> file, std::vector<Constant> constants)
      : file_(std::move(file)), constants_(std::move(constants)) {}

  Result<std::span<const std::byte>> open(std::uint32_t constant) override;
  void consumed(std::uint32_t constant, std::uint64_t end) override;
  void close(std::uint32_t constant) override;

 private:
  std::shared_ptr<const MappedFile> file_;
  std::vector<Constant> constants_;
};

}  // namespace nibble
