// A file that appears when all of it is written, or not at all.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "graph/status.hpp"

namespace nibble {

class NewFile {
 public:
  /// Only its owner can read it. A file that has the path stays until finish().
  static Result<NewFile> create(const std::string& path);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  Status write(std::span<const std::byte> bytes);
  /// Gives it its path. After a crash of the machine it is the old file or the new one, never a part.
  Status finish();

 private:
  NewFile(std::string path, std::string working) : path_(std::move(path)), working_(std::move(working)) {}
  std::unexpected<Error> failed(int error) const;

  std::string path_;
  std::string working_;  ///< its name until then, in the same folder
  int number_ = -1;
};

}  // namespace nibble
