#include "api/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace nibble {

FolderLock::FolderLock(const std::string& folder) {
  constexpr auto kPause = std::chrono::milliseconds(10);
  constexpr int kMostPauses = 500;
  number_ = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (number_ < 0) return;
  for (int i = 0; i < kMostPauses; ++i) {
    if (::flock(number_, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR)) return;
    std::this_thread::sleep_for(kPause);
  }
}

FolderLock::~FolderLock() {
  if (number_ >= 0) ::close(number_);
}

}  // namespace nibble
