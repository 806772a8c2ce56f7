// Two that read, change and replace a file of the same folder come one after the other, so that neither loses what the
// other wrote.
#pragma once

#include <string>

namespace nibble {

class FolderLock {
 public:
  /// Waits for who has it, be it another thread or process, but not for long: where somebody keeps it or a folder
  /// cannot be locked, there is none. The folder itself is locked, so that no further file is left in it.
  explicit FolderLock(const std::string& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int number_ = -1;
};

}  // namespace nibble
