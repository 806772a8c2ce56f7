// A file that is read in pieces. It is not mapped: a mapping shows what others write to the file, and reading it where
// they cut it off ends the process. POSIX only: the web build reads files in its own way.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.hpp"
#include "plan/constant_source.hpp"
#include "program/bytes.hpp"

namespace nibble {

/// May be used by several threads at once.
class File final : public ByteSource {
 public:
  static Result<File> open(const std::string& path);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() override;

  std::uint64_t size() const override { return static_cast<std::uint64_t>(opened_.st_size); }
  /// Fails if the file changed since it was opened. Where another file takes its name, this still reads the old one.
  Status read(std::uint64_t offset, std::span<std::byte> to) const override;

 private:
  File(int number, std::string path) : number_(number), path_(std::move(path)) {}
  Result<struct stat> examine() const;
  Status settle();

  int number_ = -1;
  std::string path_;
  struct stat opened_ = {};
};

/// All of a file that holds text; an error if it has more bytes than `most`.
Result<std::string> read_text(const std::string& path, std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// The constants of a graph, read from a file that outlives this.
class FileConstants final : public ConstantSource {
 public:
  FileConstants(const File& file, std::vector<Constant> constants) : file_(file), constants_(std::move(constants)) {}

  Status read(std::uint32_t constant, std::uint64_t offset, std::span<std::byte> to) override;

 private:
  const File& file_;
  std::vector<Constant> constants_;
};

}  // namespace nibble
