#include "gpu/uploader.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "gpu/host_convert.hpp"
#include "gpu/stop.hpp"

namespace nibble::gpu {

bool is_zero(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

namespace {

/// No more of a constant is in the host's memory at once.
constexpr std::uint64_t kChunkBytes = std::uint64_t{4} << 20;
/// A smaller write counts as this many bytes, because the engine makes a buffer for it too.
constexpr std::uint64_t kLeastPending = std::uint64_t{64} << 10;

class Uploader {
 public:
  Uploader(Device& device, ConstantSource& source, UploadPace pace, const Progress& progress, std::uint64_t total)
      : device_(device), source_(source), pace_(pace), progress_(progress), total_(total) {}

  /// Runs the uploads of one constant.
  Status run(std::span<const Upload> uploads, std::span<const WGPUBuffer> buffers) {
    const auto constant = uploads.front().constant;
    for (const auto& one : uploads) TRY(copy(one, buffers[one.buffer]));
    source_.close(constant);
    return {};
  }

  /// Submits what is still pending.
  Status finish() { return submit(pace_.wait_at_end); }

 private:
  Status copy(const Upload& upload, WGPUBuffer buffer) {
    for (std::uint64_t at = 0; at < upload.bytes; at += kChunkBytes) {
      const auto count = std::min(kChunkBytes, upload.bytes - at);
      if (chunk_.size() < count) chunk_.resize(count);
      const auto chunk = std::span(chunk_).first(count);
      TRY(check_stop_of_load());
      TRY(source_.read(upload.constant, upload.source_offset + at, chunk));
      if (!is_zero(chunk)) {
        TRY(upload.narrow ? write(buffer, upload.buffer_offset + at / 2, narrowed(chunk))
                          : write(buffer, upload.buffer_offset + at, chunk));
      }
      done_ += count;
      if (!progress_) continue;
      TRY(check_stop_of_load());  // before others run code of theirs, in which a signal's handler would run
      progress_(done_, total_);
    }
    return {};
  }

  std::span<const std::byte> narrowed(std::span<const std::byte> floats) {
    halves_.resize(floats.size() / 2);
    to_device(DType::f32, floats.data(), DType::f16, halves_.data(), floats.size() / 4, {});
    return halves_;
  }

  Status write(WGPUBuffer buffer, std::uint64_t offset, std::span<const std::byte> chunk) {
    const auto pending = std::max<std::uint64_t>(chunk.size(), kLeastPending);
    if (pending_ + pending > pace_.max_pending) TRY(submit(true));
    TRY(device_.check());
    ErrorScope scope(device_, ErrorScope::Catch::everything);
    const auto whole = chunk.size() / 4 * 4;
    if (whole != 0) device_.call().QueueWriteBuffer(device_.queue(), buffer, offset, chunk.data(), whole);
    if (whole != chunk.size()) {
      std::array<std::byte, 4> tail{};
      std::memcpy(tail.data(), chunk.data() + whole, chunk.size() - whole);
      device_.call().QueueWriteBuffer(device_.queue(), buffer, offset + whole, tail.data(), tail.size());
    }
    pending_ += pending;
    return scope.close("uploading a constant");
  }

  /// Makes the GPU start with what was written.
  Status submit(bool wait) {
    if (pending_ == 0) return {};
    TRY(device_.check());  // whoever watches the progress may have forked
    pending_ = 0;
    Submission submission = 0;
    {
      ErrorScope scope(device_, ErrorScope::Catch::everything);
      TRY(scope.close("uploading constants"));  // nothing may be submitted to a lost device
      submission = device_.submit_writes();
      TRY(scope.settle("uploading constants"));
    }
    if (wait) device_.wait(submission);
    return {};
  }

  Device& device_;
  ConstantSource& source_;
  UploadPace pace_;
  const Progress& progress_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  std::uint64_t pending_ = 0;
  std::vector<std::byte> chunk_;
  std::vector<std::byte> halves_;  ///< of one chunk
};

}  // namespace

Status upload(Device& device, ConstantSource& source, std::span<const Upload> uploads,
              std::span<const WGPUBuffer> buffers, UploadPace pace, const Progress& progress) {
  std::uint64_t total = 0;
  for (const auto& one : uploads) total += buffers[one.buffer] != nullptr ? one.bytes : 0;
  Uploader uploader(device, source, pace, progress, total);
  while (!uploads.empty()) {
    // Opening a constant may mean reading it, so do all its uploads at once.
    const auto is_other = [&](const Upload& one) {
      return one.constant != uploads.front().constant ||
             (buffers[one.buffer] == nullptr) != (buffers[uploads.front().buffer] == nullptr);
    };
    const auto count = static_cast<std::size_t>(std::ranges::find_if(uploads, is_other) - uploads.begin());
    if (buffers[uploads.front().buffer] != nullptr) TRY(uploader.run(uploads.first(count), buffers));
    uploads = uploads.subspan(count);
  }
  return uploader.finish();
}

}  // namespace nibble::gpu
