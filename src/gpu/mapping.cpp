#include "gpu/mapping.hpp"

#include <thread>

namespace nibble::gpu {

void Mapping::use(WGPUBuffer buffer, Mode mode, std::uint64_t mapped) {
  buffer_ = buffer;
  mode_ = mode;
  answer_.reset(new Answer);
  bytes_ = mapped;
  is_requested_ = mapped != 0;
  if (is_requested_) answer_->status.store(WGPUMapAsyncStatus_Success, std::memory_order_relaxed);
}

void Mapping::request(Device& device, std::uint64_t bytes) {
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
  device.call().BufferMapAsync(buffer_, mode_ == Mode::read ? WGPUMapMode_Read : WGPUMapMode_Write, 0, bytes, info);
}

Result<std::span<std::byte>> Mapping::take(Device& device) {
  // Another thread may have polled, and may be about to run the callback.
  while (answer_->status.load(std::memory_order_acquire) == 0) {
    TRY(device.check());
    std::this_thread::yield();
    device.engine().run_callbacks(device.handle());
  }
  const auto failed = [&] {
    return fail(ErrorCode::gpu, "mapping {} bytes of {} for the host failed", bytes_, device.profile().name);
  };
  TRY(device.check());  // wgpu-native aborts where a buffer of a lost device is looked at
  if (answer_->status.load(std::memory_order_relaxed) != WGPUMapAsyncStatus_Success) return failed();
  auto* bytes = range(device);
  if (bytes != nullptr) return std::span(bytes, bytes_);
  release(device);
  return failed();
}

std::byte* Mapping::range(Device& device) const {
  const auto& call = device.call();
  if (mode_ == Mode::write) return static_cast<std::byte*>(call.BufferGetMappedRange(buffer_, 0, bytes_));
  // Nobody writes to it.
  return static_cast<std::byte*>(const_cast<void*>(call.BufferGetConstMappedRange(buffer_, 0, bytes_)));
}

void Mapping::release(Device& device) {
  if (!std::exchange(is_requested_, false) || device.has_failed()) return;
  const auto status = answer_->status.load(std::memory_order_acquire);
  if (status == 0 || status == WGPUMapAsyncStatus_Success) device.call().BufferUnmap(buffer_);
}

}  // namespace nibble::gpu
