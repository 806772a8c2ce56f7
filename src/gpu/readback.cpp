#include "gpu/readback.hpp"

#include <algorithm>
#include <thread>

namespace nibble::gpu {

Status Readback::make(Device& device, std::uint64_t bytes) {
  TRY_ASSIGN(owned_,
             device.make_buffer(std::max<std::uint64_t>(bytes, 16), WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst,
                                fmt::format("making a readback buffer of {} bytes", bytes)));
  use(owned_.get());
  return {};
}

void Readback::use(WGPUBuffer buffer) {
  buffer_ = buffer;
  answer_.reset(new Answer);
}

void Readback::request(Device& device, std::uint64_t bytes) {
  bytes_ = bytes;
  is_requested_ = true;
  const auto number = answer_->request.load(std::memory_order_relaxed) + 1;
  answer_->request.store(number, std::memory_order_relaxed);
  answer_->status.store(0, std::memory_order_release);
  answer_->owners.fetch_add(1);
  WGPUBufferMapCallbackInfo info{};
  info.mode = WGPUCallbackMode_AllowProcessEvents;
  info.userdata1 = answer_.get();
  info.userdata2 = reinterpret_cast<void*>(number);
  info.callback = [](WGPUMapAsyncStatus status, WGPUStringView, void* answer, void* request) {
    // Any thread may run this. The first load makes it come after request() for ThreadSanitizer, too, which does not
    // see the engine's locks.
    auto& to = *static_cast<Answer*>(answer);
    const bool is_open = to.status.load(std::memory_order_acquire) == 0;
    if (is_open && to.request.load(std::memory_order_relaxed) == reinterpret_cast<std::uintptr_t>(request))
      to.status.store(status, std::memory_order_release);
    to.drop();
  };
  device.call().BufferMapAsync(buffer_, WGPUMapMode_Read, 0, bytes, info);
}

Result<std::span<const std::byte>> Readback::wait(Device& device, Submission submission) {
  device.wait(submission);
  return take(device);
}

Result<std::span<const std::byte>> Readback::take(Device& device) {
  // Another thread may have polled, and may be about to run the callback.
  while (answer_->status.load(std::memory_order_acquire) == 0) {
    TRY(device.check());
    std::this_thread::yield();
    device.engine().run_callbacks(device.handle());
  }
  if (answer_->status.load(std::memory_order_relaxed) != WGPUMapAsyncStatus_Success) {
    TRY(device.check());
    return fail(ErrorCode::gpu, "reading {} bytes back from {} failed", bytes_, device.profile().name);
  }
  TRY(device.check());  // wgpu-native aborts where a buffer of a lost device is looked at
  const auto* bytes = static_cast<const std::byte*>(device.call().BufferGetConstMappedRange(buffer_, 0, bytes_));
  if (bytes == nullptr) {
    release(device);
    return fail(ErrorCode::gpu, "the {} bytes read back from {} cannot be seen", bytes_, device.profile().name);
  }
  return std::span(bytes, bytes_);
}

void Readback::release(Device& device) {
  if (!std::exchange(is_requested_, false) || device.has_failed()) return;
  const auto status = answer_->status.load(std::memory_order_acquire);
  if (status == 0 || status == WGPUMapAsyncStatus_Success) device.call().BufferUnmap(buffer_);
}

}  // namespace nibble::gpu
