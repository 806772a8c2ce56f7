#include "program/file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <limits>
#include <system_error>

#include "graph/size.hpp"

namespace nibble {

namespace {

std::string reason(int error) { return std::error_code(error, std::generic_category()).message(); }

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

File::File(File&& other) noexcept
    : number_(std::exchange(other.number_, -1)), path_(std::move(other.path_)), opened_(other.opened_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(number_, other.number_);
  std::swap(path_, other.path_);
  std::swap(opened_, other.opened_);
  return *this;
}

File::~File() {
  if (number_ >= 0) ::close(number_);
}

Result<struct stat> File::examine() const {
  struct stat info{};
  if (::fstat(number_, &info) == 0) return info;
  return fail(ErrorCode::io, "'{}' cannot be examined: {}", path_, reason(errno));
}

Result<File> File::open(const std::string& path) {
  // The system would take it for the end of the path.
  if (const auto nul = path.find('\0'); nul != std::string::npos) {
    return fail(ErrorCode::io, "a path that begins with '{}' has a NUL in it", path.substr(0, nul));
  }
  std::string name = path;
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), std::move(name));
  if (file.number_ < 0) return fail(ErrorCode::io, "'{}' cannot be opened: {}", path, reason(errno));
  TRY_ASSIGN(file.opened_, file.examine());
  if (S_ISDIR(file.opened_.st_mode)) return fail(ErrorCode::io, "'{}' is a folder, not a file", path);
  if (!S_ISREG(file.opened_.st_mode)) return fail(ErrorCode::io, "'{}' is not a regular file", path);
  if (file.opened_.st_size == 0) return fail(ErrorCode::invalid_program, "'{}' is empty", path);
  TRY(file.settle());
  return file;
}

/// A file's time of change comes from a clock that ticks every few milliseconds. If it changed in this tick, it could
/// change again without a trace: so wait for the next. One that is changed without a pause cannot be read.
Status File::settle() {
  constexpr std::int64_t kTick = 20'000'000;
  constexpr int kMostTicks = 100;
  for (int tick = 0; tick < kMostTicks; ++tick) {
    timespec now{};
    if (::clock_gettime(CLOCK_REALTIME, &now) != 0) return {};
    const auto age = nanoseconds(now) - nanoseconds(opened_.st_mtim);
    if (age < 0 || age > kTick) return {};
    const timespec rest{.tv_sec = 0, .tv_nsec = kTick};
    ::nanosleep(&rest, nullptr);
    TRY_ASSIGN(opened_, examine());
  }
  return fail(ErrorCode::io, "'{}' is changed again and again while it is opened", path_);
}

Status File::read(std::uint64_t offset, std::span<std::byte> to) const {
  TRY(check_range(offset, to.size(), size(), fmt::format("'{}'", path_)));
  bool is_whole = true;
  for (std::size_t done = 0; is_whole && done < to.size();) {
    const auto got = ::pread(number_, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(ErrorCode::io, "'{}' cannot be read: {}", path_, reason(errno));
    is_whole = got != 0;
    done += static_cast<std::size_t>(got);
  }
  // Afterwards, so that what was read is of the file as it was opened.
  TRY_ASSIGN(const auto now, examine());
  if (is_whole && now.st_size == opened_.st_size && nanoseconds(now.st_mtim) == nanoseconds(opened_.st_mtim)) return {};
  return fail(ErrorCode::io, "'{}' was changed while it was read", path_);
}

Result<std::string> read_text(const std::string& path, std::uint64_t most) {
  TRY_ASSIGN(const File file, File::open(path));
  if (file.size() > most) {
    return fail(ErrorCode::invalid_argument, "'{}' has {} bytes, but {} are the most", path, file.size(), most);
  }
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  TRY(file.read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

Status FileConstants::read(std::uint32_t constant, std::uint64_t offset, std::span<std::byte> to) {
  if (constant >= constants_.size() || !constants_[constant].located) {
    return fail(ErrorCode::internal, "constant {} of {} is not in the file", constant, constants_.size());
  }
  const auto& range = constants_[constant];
  TRY(check_constant(constant, range.length, offset, to.size()));
  return file_.read(range.offset + offset, to);
}

}  // namespace nibble
