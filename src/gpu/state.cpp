// The part of the executor that keeps a session's state: going back, copying it, and moving it out and in.
#include <algorithm>

#include "gpu/executor.hpp"

namespace nibble::gpu {
namespace {

/// No more of the state is in the host's memory at once.
constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;

}  // namespace

Status Executor::check_settled() const {
  TRY(check_idle());
  if (!is_incomplete_) return {};
  TRY(device_.check());  // of a device that failed, it stays incomplete
  return fail(ErrorCode::invalid_argument,
              "this session's state is incomplete, because replacing it failed: reset or restore it");
}

Status Executor::rewind(std::int64_t rows, ConstantSource& source) {
  TRY(check_settled());
  TRY(device_.check());
  if (rows < 0) return fail(ErrorCode::out_of_range, "a session cannot be rewound to row {}", rows);
  const auto by_rows = model_->by_rows();
  const auto other = std::ranges::find(by_rows, 0);
  if (other != by_rows.end()) {
    if (rows == 0) return reset(source);
    const auto& desc = layout_.states[static_cast<std::size_t>(other - by_rows.begin())];
    return fail(ErrorCode::invalid_argument,
                "a session of this program can only be rewound to row 0, not to {}, because its state {} of shape {} "
                "has no rows that calls fill one after the other",
                rows, desc.role, desc.shape);
  }
  std::optional<std::int64_t> in_use;
  for (std::size_t i = 0; i < state_rows_.size(); ++i) {
    if (layout_.states[i].row_axis != StateDesc::kNoRows)
      in_use = std::min(in_use.value_or(state_rows_[i]), state_rows_[i]);
  }
  if (rows > in_use.value_or(0)) {
    return fail(ErrorCode::out_of_range, "a session cannot be rewound to row {}: {} are in use", rows,
                in_use.value_or(0));
  }
  // What lies in rows that are not in use has no meaning, so it may stay.
  for (std::size_t i = 0; i < state_rows_.size(); ++i) {
    if (layout_.states[i].row_axis != StateDesc::kNoRows) state_rows_[i] = rows;
  }
  return {};
}

Status Executor::reset(ConstantSource& source) {
  TRY(check_idle());
  TRY(fill_state(initial_uploads(), source));
  std::ranges::fill(state_rows_, 0);
  return {};
}

std::vector<Upload> Executor::initial_uploads() const {
  std::vector<Upload> uploads;
  std::ranges::copy_if(layout_.uploads, std::back_inserter(uploads),
                       [&](const Upload& upload) { return layout_.buffers[upload.buffer].role == BufferRole::state; });
  return uploads;
}

Status Executor::fill_state(std::span<const Upload> uploads, ConstantSource& source) {
  TRY(device_.check());
  is_incomplete_ = true;
  TRY(clear_state());
  // It leaves out what is zero, as most of a cache's beginning.
  TRY(upload(device_, source, uploads, buffers_.raw, kStatePace, nullptr));
  is_incomplete_ = false;
  return {};
}

Status Executor::clear_state() {
  ErrorScope scope(device_, ErrorScope::Catch::validation);
  const CommandEncoder encoder = device_.make_encoder();
  for (std::size_t i = 0; i < layout_.buffers.size(); ++i) {
    if (layout_.buffers[i].role != BufferRole::state) continue;
    device_.call().CommandEncoderClearBuffer(encoder.get(), buffers_.raw[i], 0, WGPU_WHOLE_SIZE);
  }
  const CommandBuffer commands = device_.finish(encoder);
  TRY(scope.close("clearing a session's state"));
  device_.submit(commands);
  return scope.settle("clearing a session's state");
}

std::vector<StateRange> Executor::live_ranges(std::span<const std::int64_t> rows) const {
  return nibble::live_ranges(layout_, model_->by_rows(), rows);
}

Result<std::unique_ptr<Executor>> Executor::fork() const {
  TRY(check_settled());
  TRY_ASSIGN(auto other, make_empty(model_, boundary_));
  const auto ranges = live_ranges(state_rows_);
  ErrorScope scope(device_, ErrorScope::Catch::everything);
  const CommandEncoder encoder = device_.make_encoder();
  for (const auto& range : ranges) {
    device_.call().CommandEncoderCopyBufferToBuffer(encoder.get(), buffers_.raw[range.buffer], range.offset,
                                                    other->buffers_.raw[range.buffer], range.offset, range.bytes);
  }
  const CommandBuffer commands = device_.finish(encoder);
  TRY(scope.close("copying a session's state"));
  // Nobody waits: calls of either session come later on the same queue.
  device_.submit(commands);
  TRY(scope.settle("copying a session's state"));
  other->state_rows_ = state_rows_;
  return other;
}

Status Executor::read_state(const std::function<Status(std::span<const std::byte>)>& take) const {
  TRY(check_settled());
  TRY(device_.check());
  auto ranges = live_ranges(state_rows_);
  std::uint64_t left = 0;
  for (const auto& range : ranges) left += range.bytes;
  Readback piece;
  TRY(piece.make(device_, std::min(left, kPieceBytes)));
  for (auto range = ranges.begin(); range != ranges.end();) {
    if (is_stop_wanted()) return fail(ErrorCode::cancelled, "reading a session's state was cancelled");
    TRY(device_.check());  // whoever was asked may have forked
    std::uint64_t filled = 0;
    Submission submission = 0;
    {
      ErrorScope scope(device_, ErrorScope::Catch::everything);
      const CommandEncoder encoder = device_.make_encoder();
      while (range != ranges.end() && filled < kPieceBytes) {
        const auto bytes = std::min(range->bytes, kPieceBytes - filled);
        device_.call().CommandEncoderCopyBufferToBuffer(encoder.get(), buffers_.raw[range->buffer], range->offset,
                                                        piece.buffer(), filled, bytes);
        filled += bytes;
        range->offset += bytes;
        range->bytes -= bytes;
        if (range->bytes == 0) ++range;
      }
      const CommandBuffer commands = device_.finish(encoder);
      TRY(scope.close("reading a session's state"));
      submission = device_.submit(commands);
      piece.request(device_, filled);
      TRY(scope.settle("reading a session's state"));
    }
    TRY_ASSIGN(const auto bytes, piece.wait(device_, submission));
    const auto status = take(bytes);
    piece.release(device_);
    TRY(status);
  }
  return {};
}

Status Executor::write_state(std::span<const std::int64_t> rows, ConstantSource& source) {
  TRY(check_idle());
  std::vector<Upload> uploads;
  std::uint64_t at = 0;
  for (const auto& range : live_ranges(rows)) {
    uploads.push_back({.buffer = range.buffer,
                       .buffer_offset = range.offset,
                       .constant = 0,
                       .source_offset = at,
                       .bytes = range.bytes});
    at += range.bytes;
  }
  TRY(fill_state(uploads, source));
  std::ranges::copy(rows, state_rows_.begin());
  return {};
}

}  // namespace nibble::gpu
