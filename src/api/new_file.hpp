// A file that appears when all of it is written, or not at all.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "graph/status.hpp"

namespace nibble {

class NewFile {
 public:
  /// Who may read it: only its owner; or who may read the file that it replaces or else any new one.
  enum class Readers : std::uint8_t { owner, usual };

  /// A file that has the path stays until finish().
  static Result<NewFile> create(const std::string& path, Readers readers = Readers::owner);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  Status write(std::span<const std::byte> bytes);
  /// Gives it its path. After a crash of the machine it is the old file or the new one, never a part.
  Status finish();

 private:
  explicit NewFile(std::string path) : path_(std::move(path)) {}
  bool open_working(mode_t mode);
  std::unexpected<Error> failed(int error) const;

  std::string path_;
  std::string working_;  ///< its name until then, in the same folder
  int number_ = -1;
};

/// Where a path leads that may be a link, also to what does not exist: what is renamed to a link takes its place.
std::string behind_links(const std::string& path);

}  // namespace nibble
