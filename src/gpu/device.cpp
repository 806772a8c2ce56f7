#include "gpu/device.hpp"

#include <cstdlib>

#include "gpu/adapters.hpp"
#include "gpu/engines/engines.hpp"
#include "graph/guarded.hpp"

namespace nibble::gpu {
namespace {

/// wgpu-native reports some out-of-memory errors as validation errors, so look at the text too. (Too little workgroup
/// memory has another text.)
ErrorCode code_of(WGPUErrorType type, std::string_view message) {
  const bool is_full =
      type == WGPUErrorType_OutOfMemory || message.contains("ut of memory") || message.contains("ot enough memory");
  return is_full ? ErrorCode::out_of_memory : ErrorCode::gpu;
}

/// In what wgpu-native says of a device that is lost.
constexpr std::string_view kLost = "evice is lost";

struct OpenDevices {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Device>, std::less<>> by_selector;
  std::map<std::string, std::weak_ptr<Device>> by_adapter;
};

OpenDevices& open_devices() {
  static OpenDevices& one = *new OpenDevices;
  return one;
}

std::shared_ptr<Device> usable(const std::weak_ptr<Device>& weak) {
  auto device = weak.lock();
  return device != nullptr && !device->has_failed() ? device : nullptr;
}

/// Engines report an error on the thread that made it.
thread_local ErrorScope* open_scope = nullptr;

}  // namespace

Result<std::shared_ptr<Device>> Device::open(std::string_view selector, std::string_view engine) {
  if (const char* variable = std::getenv("NIBBLE_DEVICE"); selector.empty() && variable != nullptr) selector = variable;
  TRY(enter_process());
  TRY_ASSIGN(engine, chosen_engine(engine));
  auto& known = open_devices();
  const auto asked = fmt::format("{}:{}", engine, selector);
  {
    std::lock_guard guard(known.mutex);
    if (auto found = known.by_selector.find(asked); found != known.by_selector.end()) {
      if (auto device = usable(found->second)) return device;
    }
  }
  // Without the lock: loading an engine may wait for Python's, whose holder may wait for this one.
  TRY_ASSIGN(auto found, find_adapter(engine, selector));
  auto& [adapter, index] = found;
  std::lock_guard guard(known.mutex);
  auto& opened = known.by_adapter[fmt::format("{}:{}", adapter.engine->name(), adapter.number)];
  auto device = usable(opened);
  if (device == nullptr) {
    TRY_ASSIGN(device, open_adapter(adapter, index));
  }
  opened = device;
  known.by_selector.insert_or_assign(asked, device);
  return device;
}

Result<std::shared_ptr<Device>> Device::open_adapter(Adapter& adapter, std::size_t index) {
  std::shared_ptr<Device> self(new Device);
  self->index_ = index;
  self->number_ = adapter.number;
  self->engine_ = adapter.engine;
  self->profile_ = adapter.profile;

  WGPUDeviceDescriptor descriptor{};
  descriptor.nextInChain = adapter.engine->device_extras();
  descriptor.requiredFeatureCount = adapter.features.size();
  descriptor.requiredFeatures = adapter.features.data();
  descriptor.requiredLimits = &adapter.limits;
  descriptor.deviceLostCallbackInfo.mode = WGPUCallbackMode_AllowSpontaneous;
  descriptor.deviceLostCallbackInfo.callback = on_lost;
  descriptor.deviceLostCallbackInfo.userdata1 = self.get();
  descriptor.uncapturedErrorCallbackInfo.callback = on_error;
  descriptor.uncapturedErrorCallbackInfo.userdata1 = self.get();

  struct Answer {
    WGPUDevice device = nullptr;
    std::string message;
  } answer;
  WGPURequestDeviceCallbackInfo callback{};
  callback.mode = WGPUCallbackMode_AllowSpontaneous;
  callback.userdata1 = &answer;
  callback.callback = [](WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message, void* to, void*) {
    auto& out = *static_cast<Answer*>(to);
    if (status == WGPURequestDeviceStatus_Success) out.device = device;
    out.message = text_of([&] { return one_line(view(message)); });
  };
  self->call().AdapterRequestDevice(adapter.handle.get(), &descriptor, callback);  // answered before it returns
  exit_before_drivers();
  if (answer.device == nullptr) {
    return fail(ErrorCode::gpu, "the device {} could not be opened: {}", adapter.profile.name, answer.message);
  }
  self->device_ = DeviceHandle(*self->engine_, answer.device);
  self->queue_ = Queue(*self->engine_, self->call().DeviceGetQueue(answer.device));
  return self;
}

Device::~Device() {
  // The driver may still be working on the last submission.
  if (device_ && !is_forked() && !has_failed()) engine_->finish(device_.get());
  // Their last callbacks come now, while what they write to is still there.
  pipelines_.clear();
  queue_ = Queue();
  device_ = DeviceHandle();
}

void Device::on_error(WGPUDevice const*, WGPUErrorType type, WGPUStringView message, void* self, void*) {
  auto& device = *static_cast<Device*>(self);
  if (open_scope != nullptr && &open_scope->device_ == &device) {
    if (open_scope->failure_.type == WGPUErrorType_NoError)
      open_scope->failure_ = {type, text_of([&] { return one_line(view(message)); })};
    return;
  }
  std::lock_guard guard(device.latch_mutex_);
  if (!device.latched_) {
    device.latched_ =
        Error{code_of(type, view(message)), text_of([&] {
                return fmt::format("{}: the GPU reported an error: {}", device.profile_.name, one_line(view(message)));
              })};
  }
}

void Device::on_lost(WGPUDevice const*, WGPUDeviceLostReason reason, WGPUStringView message, void* self, void*) {
  // The device is being released by ~Device, or was never made.
  if (reason == WGPUDeviceLostReason_CallbackCancelled || reason == WGPUDeviceLostReason_FailedCreation) return;
  auto& device = *static_cast<Device*>(self);
  std::lock_guard guard(device.latch_mutex_);
  if (device.latched_ && device.latched_->code == ErrorCode::device_lost) return;
  device.latched_ = Error{
      ErrorCode::device_lost,
      text_of([&] { return fmt::format("the device {} is lost: {}", device.profile_.name, one_line(view(message))); })};
}

bool Device::has_failed() const {
  std::lock_guard guard(latch_mutex_);
  return latched_.has_value();
}

std::optional<Error> Device::lost() const {
  const auto status = check();
  return status ? std::nullopt : std::optional(status.error());
}

Status Device::check() const {
  TRY(check_process());
  std::lock_guard guard(latch_mutex_);
  if (latched_) return std::unexpected(*latched_);
  return {};
}

Result<Buffer> Device::make_buffer(std::uint64_t bytes, WGPUBufferUsage usage, std::string_view what) {
  TRY(check());
  WGPUBufferDescriptor descriptor{};
  descriptor.usage = usage;
  descriptor.size = bytes;
  descriptor.mappedAtCreation = (usage & WGPUBufferUsage_MapWrite) != 0 ? 1 : 0;
  ErrorScope scope(*this, ErrorScope::Catch::everything);
  Buffer buffer(*engine_, call().DeviceCreateBuffer(handle(), &descriptor));
  TRY(scope.close(what));
  // Dawn gives none where there is no memory to map.
  if (!buffer) return fail(ErrorCode::out_of_memory, "{} failed on {}: it cannot be mapped", what, profile_.name);
  return buffer;
}

CommandEncoder Device::make_encoder() { return {*engine_, call().DeviceCreateCommandEncoder(handle(), nullptr)}; }

CommandBuffer Device::finish(const CommandEncoder& encoder) {
  return {*engine_, call().CommandEncoderFinish(encoder.get(), nullptr)};
}

Submission Device::submit(const CommandBuffer& commands) { return engine_->submit(queue(), {{commands.get()}}); }
Submission Device::submit_writes() { return engine_->submit(queue(), {}); }

void Device::wait(Submission submission) const {
  ++waits_;
  engine_->wait(device_.get(), submission);
}

void Device::destroy_for_test() { call().DeviceDestroy(device_.get()); }

ErrorScope::ErrorScope(Device& device, Catch what, Lock lock) : device_(device), lock_(device.mutex_, std::defer_lock) {
  if (lock == Lock::device) lock_.lock();
  open_scope = this;
  if (!device.engine().has_scopes_per_thread()) return;
  device.call().DevicePushErrorScope(device.handle(), WGPUErrorFilter_Validation);
  scopes_ = 1;
  if (what == Catch::everything) {
    device.call().DevicePushErrorScope(device.handle(), WGPUErrorFilter_OutOfMemory);
    scopes_ = 2;
  }
}

ErrorScope::~ErrorScope() {
  pop();
  open_scope = nullptr;
}

void ErrorScope::pop() {
  for (; scopes_ > 0; --scopes_) {
    WGPUPopErrorScopeCallbackInfo info{};
    info.mode = WGPUCallbackMode_AllowSpontaneous;
    info.userdata1 = &device_;
    info.callback = [](WGPUPopErrorScopeStatus, WGPUErrorType type, WGPUStringView message, void* device, void*) {
      if (type != WGPUErrorType_NoError) Device::on_error(nullptr, type, message, device, nullptr);
    };
    device_.call().DevicePopErrorScope(device_.handle(), info);  // answered before it returns
  }
}

Status ErrorScope::close(std::string_view what) {
  pop();
  return take(what);
}

Status ErrorScope::settle(std::string_view what) { return take(what); }

void ErrorScope::look_for_loss() {
  // wgpu-native gives a device up where there is no memory for a write, and tells that when its queue is empty. Until
  // then it aborts where mapped memory is looked at, as a call in flight would; but whoever makes a buffer hears it.
  if (failure_.type == WGPUErrorType_NoError || device_.engine().has_scopes_per_thread()) return;
  auto first = std::exchange(failure_, {});
  WGPUBufferDescriptor descriptor{};
  descriptor.usage = WGPUBufferUsage_CopyDst;
  descriptor.size = 16;
  const Buffer buffer(device_.engine(), device_.call().DeviceCreateBuffer(device_.handle(), &descriptor));
  if (!failure_.message.contains(kLost)) failure_ = std::move(first);
}

Status ErrorScope::take(std::string_view what) {
  look_for_loss();
  std::lock_guard guard(device_.latch_mutex_);
  if (device_.latched_) return std::unexpected(*device_.latched_);
  if (failure_.type == WGPUErrorType_NoError) return {};
  auto code = code_of(failure_.type, failure_.message);
  auto message = std::exchange(failure_, {}).message;
  // wgpu-native may report a lost device as another error before it calls on_lost.
  if (message.contains(kLost)) {
    device_.latched_ = Error{ErrorCode::device_lost, fmt::format("the device {} is lost", device_.profile_.name)};
    return std::unexpected(*device_.latched_);
  }
  return fail(code, "{} failed on {}: {}", what, device_.profile_.name, message);
}

}  // namespace nibble::gpu
