#include "api/new_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace nibble {

Result<NewFile> NewFile::create(const std::string& path, Readers readers) {
  // The system would take it for the end of the path.
  if (const auto nul = path.find('\0'); nul != std::string::npos) {
    return fail(ErrorCode::io, "a path that begins with '{}' has a NUL in it", path.substr(0, nul));
  }
  NewFile file(path);
  // Whoever may rename over a device or a pipe would lose it.
  struct stat there{};
  const bool is_there = ::stat(path.c_str(), &there) == 0;
  if (is_there && !S_ISREG(there.st_mode)) {
    return fail(ErrorCode::io, "'{}' cannot be written: it is not a regular file", path);
  }
  constexpr mode_t kOwner = 0600;
  constexpr mode_t kAll = 0666;
  if (!file.open_working(readers == Readers::owner ? kOwner : kAll)) return file.failed(errno);
  constexpr mode_t kAccess = 0777;
  if (readers == Readers::usual && is_there && ::fchmod(file.number_, there.st_mode & kAccess) != 0) {
    return file.failed(errno);
  }
  return file;
}

/// Not by mkostemp(): what a file may be by the umask, only open() knows while other threads run.
bool NewFile::open_working(mode_t mode) {
  static std::atomic<std::uint32_t> count;
  constexpr int kTries = 100;
  for (int i = 0; i < kTries && number_ < 0; ++i) {
    working_ = fmt::format("{}.{}.{}", path_, ::getpid(), count++);
    number_ = ::open(working_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (number_ < 0 && errno != EEXIST) break;
  }
  return number_ >= 0;
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)), working_(std::move(other.working_)), number_(std::exchange(other.number_, -1)) {}

NewFile::~NewFile() {
  if (number_ < 0) return;
  ::close(number_);
  ::unlink(working_.c_str());
}

std::unexpected<Error> NewFile::failed(int error) const {
  return fail(ErrorCode::io, "'{}' cannot be written: {}", path_,
              std::error_code(error, std::generic_category()).message());
}

Status NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto done = ::write(number_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return failed(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  return {};
}

Status NewFile::finish() {
  if (::fsync(number_) != 0) return failed(errno);
  if (std::rename(working_.c_str(), path_.c_str()) != 0) return failed(errno);
  ::close(std::exchange(number_, -1));
  return {};
}

std::string behind_links(const std::string& path) {
  constexpr int kMost = 40;  // as of systems
  std::filesystem::path place = path;
  std::error_code error;
  for (int i = 0; i < kMost; ++i) {
    const auto target = std::filesystem::read_symlink(place, error);
    if (error) break;
    place = place.parent_path() / target;
  }
  return place.string();
}

}  // namespace nibble
