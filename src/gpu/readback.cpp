#include "gpu/readback.hpp"

#include <algorithm>
#include <thread>

namespace nibble::gpu {

Status Readback::make(Device& device, std::uint64_t bytes) {
  TRY_ASSIGN(buffer_,
             device.make_buffer(std::max<std::uint64_t>(bytes, 16), WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst,
                                fmt::format("making a readback buffer of {} bytes", bytes)));
  answer_.reset(new Answer);
  return {};
}

void Readback::request(Device& device, std::uint64_t bytes) {
  bytes_ = bytes;
  answer_->status.store(0, std::memory_order_release);
  answer_->owners.fetch_add(1);
  WGPUBufferMapCallbackInfo info{};
  info.mode = WGPUCallbackMode_AllowProcessEvents;
  info.userdata1 = answer_.get();
  info.callback = [](WGPUMapAsyncStatus status, WGPUStringView, void* answer, void*) {
    // Any thread may run this. The first load makes it come after request() for ThreadSanitizer, too, which does not
    // see the engine's locks.
    auto& to = *static_cast<Answer*>(answer);
    if (to.status.load(std::memory_order_acquire) == 0) to.status.store(status, std::memory_order_release);
    to.drop();
  };
  device.call().BufferMapAsync(buffer_.get(), WGPUMapMode_Read, 0, bytes, info);
}

Result<std::span<const std::byte>> Readback::wait(Device& device, Submission submission) {
  device.wait(submission);
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
  const auto* bytes = static_cast<const std::byte*>(device.call().BufferGetConstMappedRange(buffer_.get(), 0, bytes_));
  if (bytes == nullptr) {
    release(device);
    return fail(ErrorCode::gpu, "the {} bytes read back from {} cannot be seen", bytes_, device.profile().name);
  }
  return std::span(bytes, bytes_);
}

void Readback::release(Device& device) { device.call().BufferUnmap(buffer_.get()); }

}  // namespace nibble::gpu
