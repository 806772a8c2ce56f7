#include "cli/trace_file.hpp"

#include <cstdio>
#include <span>

#include "graph/status.hpp"

namespace nibble::cli {

TraceFile::~TraceFile() {
  if (device_) (void)device_->stop_trace();
}

Status TraceFile::create(const std::string& path) {
  if (path.empty()) return {};
  TRY_ASSIGN(auto file, NewFile::create(behind_links(path), NewFile::Readers::usual));
  file_.emplace(std::move(file));
  return {};
}

Status TraceFile::start(const Device& device) {
  if (!file_) return {};
  TRY(device.start_trace());
  device_ = device;
  if (!device.info().timestamp_query) {
    std::fputs(
        fmt::format("nibble: {} has no timestamp queries, so the trace has the host's work only\n", device.info().name)
            .c_str(),
        stderr);
  }
  return {};
}

Status TraceFile::finish() {
  if (!device_) return {};
  TRY_ASSIGN(const Trace trace, device_->stop_trace());
  device_.reset();
  TRY_ASSIGN(const std::string json, chrome_trace(trace));
  TRY(file_->write(std::as_bytes(std::span(json))));
  return file_->finish();
}

}  // namespace nibble::cli
