#include "program/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <system_error>

#include "graph/status.hpp"

namespace nibble {

namespace {

std::string reason(int error) { return std::error_code(error, std::generic_category()).message(); }

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) return fail(ErrorCode::io, "'{}' cannot be opened: {}", path, reason(errno));
  struct stat info{};
  if (::fstat(file.number(), &info) != 0) {
    return fail(ErrorCode::io, "'{}' cannot be examined: {}", path, reason(errno));
  }
  if (S_ISDIR(info.st_mode)) return fail(ErrorCode::io, "'{}' is a folder, not a file", path);
  if (!S_ISREG(info.st_mode)) return fail(ErrorCode::io, "'{}' is not a regular file", path);
  if (info.st_size == 0) return fail(ErrorCode::invalid_program, "'{}' is empty", path);
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  if (bytes > std::numeric_limits<std::size_t>::max()) {
    return fail(ErrorCode::io, "'{}' has {} bytes, more than this process can address", path, bytes);
  }
  void* address = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (address == MAP_FAILED) {
    return fail(ErrorCode::io, "the {} bytes of '{}' cannot be mapped: {}", bytes, path, reason(errno));
  }
  return MappedFile({static_cast<const std::byte*>(address), static_cast<std::size_t>(bytes)});
}

MappedFile::~MappedFile() {
  if (bytes_.data() != nullptr) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::release(std::size_t begin, std::size_t end) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  begin -= begin % page;
  // A page that also holds bytes after `end` is kept. The file's last page has none, so it may go.
  if (end < bytes_.size()) end -= end % page;
  // This is only advice. If the system ignores it, memory stays in use and nothing else changes.
  if (begin < end) ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_DONTNEED);
}

Result<std::span<const std::byte>> FileConstants::open(std::uint32_t constant) {
  if (constant >= constants_.size() || !constants_[constant].located) {
    return fail(ErrorCode::internal, "constant {} of {} is not in the file", constant, constants_.size());
  }
  const auto& range = constants_[constant];
  if (!(Size(range.offset) + range.length).fits(file_->bytes().size())) {
    return fail(ErrorCode::invalid_program, "constant {} has {} bytes from {} on, but the file ends at {}", constant,
                range.length, range.offset, file_->bytes().size());
  }
  return file_->bytes().subspan(static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.length));
}

void FileConstants::consumed(std::uint32_t constant, std::uint64_t end) {
  const auto offset = static_cast<std::size_t>(constants_[constant].offset);
  file_->release(offset, offset + static_cast<std::size_t>(end));
}

void FileConstants::close(std::uint32_t constant) { consumed(constant, constants_[constant].length); }

}  // namespace nibble
