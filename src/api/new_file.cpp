#include "api/new_file.hpp"

#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkostemp is POSIX's
#include <unistd.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace nibble {

Result<NewFile> NewFile::create(const std::string& path) {
  // The system would take it for the end of the path.
  if (const auto nul = path.find('\0'); nul != std::string::npos) {
    return fail(ErrorCode::io, "a path that begins with '{}' has a NUL in it", path.substr(0, nul));
  }
  NewFile file(path, path + ".XXXXXX");
  // Whoever may rename over a device or a pipe would lose it.
  struct stat there{};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return fail(ErrorCode::io, "'{}' cannot be written: it is not a regular file", path);
  }
  file.number_ = ::mkostemp(file.working_.data(), O_CLOEXEC);
  if (file.number_ < 0) return file.failed(errno);
  return file;
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

}  // namespace nibble
