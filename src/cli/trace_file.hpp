// --trace FILE: what a command's loads and calls do, for chrome://tracing and Perfetto.
#pragma once

#include <optional>
#include <string>

#include "api/new_file.hpp"
#include "nibble/nibble.hpp"

namespace nibble::cli {

/// With an empty path, nothing is traced and nothing written.
class TraceFile {
 public:
  TraceFile() = default;
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile();

  /// Before the work begins, so that a file that cannot be written is told then.
  Status create(const std::string& path);
  Status start(const Device& device);
  /// Writes what was done since.
  Status finish();

 private:
  std::optional<NewFile> file_;
  std::optional<Device> device_;  ///< while it is traced
};

}  // namespace nibble::cli
