// wgpu-native. It is loaded at the first GPU call, not linked. So `nibble --help` and the planner need no GPU library,
// and Nibble's wheel can use the library in the wheel `wgpu`. Functions are called as `wgpu().DeviceCreateBuffer(…)`.
#pragma once

#include <wgpu.h>

#include <string>
#include <string_view>
#include <utility>

#include "graph/status.hpp"

namespace nibble::gpu {

/// The functions of webgpu.h that Nibble calls. Those that wgpu-native leaves unimplemented abort the process: none of
/// them may be added here (InstanceWaitAny, BufferGetMapState, DeviceGetLostFuture, …).
#define NIBBLE_WGPU_STANDARD(X)           \
  X(AdapterGetFeatures)                   \
  X(AdapterGetInfo)                       \
  X(AdapterGetLimits)                     \
  X(AdapterInfoFreeMembers)               \
  X(AdapterRelease)                       \
  X(AdapterRequestDevice)                 \
  X(BindGroupLayoutRelease)               \
  X(BindGroupRelease)                     \
  X(BufferGetConstMappedRange)            \
  X(BufferMapAsync)                       \
  X(BufferRelease)                        \
  X(BufferUnmap)                          \
  X(CommandBufferRelease)                 \
  X(CommandEncoderBeginComputePass)       \
  X(CommandEncoderClearBuffer)            \
  X(CommandEncoderCopyBufferToBuffer)     \
  X(CommandEncoderFinish)                 \
  X(CommandEncoderRelease)                \
  X(CommandEncoderResolveQuerySet)        \
  X(ComputePassEncoderDispatchWorkgroups) \
  X(ComputePassEncoderEnd)                \
  X(ComputePassEncoderRelease)            \
  X(ComputePassEncoderSetBindGroup)       \
  X(ComputePassEncoderSetPipeline)        \
  X(ComputePipelineRelease)               \
  X(CreateInstance)                       \
  X(DeviceCreateBindGroup)                \
  X(DeviceCreateBindGroupLayout)          \
  X(DeviceCreateBuffer)                   \
  X(DeviceCreateCommandEncoder)           \
  X(DeviceCreateComputePipeline)          \
  X(DeviceCreatePipelineLayout)           \
  X(DeviceCreateQuerySet)                 \
  X(DeviceDestroy)                        \
  X(DeviceGetQueue)                       \
  X(DevicePopErrorScope)                  \
  X(DevicePushErrorScope)                 \
  X(DeviceRelease)                        \
  X(InstanceRelease)                      \
  X(PipelineLayoutRelease)                \
  X(QuerySetRelease)                      \
  X(QueueRelease)                         \
  X(QueueWriteBuffer)                     \
  X(ShaderModuleRelease)                  \
  X(SupportedFeaturesFreeMembers)

/// Functions that only wgpu-native has.
#define NIBBLE_WGPU_EXTRAS(X)        \
  X(DeviceCreateShaderModuleTrusted) \
  X(DevicePoll)                      \
  X(GenerateReport)                  \
  X(GetVersion)                      \
  X(InstanceEnumerateAdapters)       \
  X(QueueGetTimestampPeriod)         \
  X(QueueSubmitForIndex)             \
  X(SetLogCallback)                  \
  X(SetLogLevel)

struct Wgpu {
#define NIBBLE_WGPU_MEMBER(name) WGPUProc##name name = nullptr;
  NIBBLE_WGPU_STANDARD(NIBBLE_WGPU_MEMBER)
#undef NIBBLE_WGPU_MEMBER
#define NIBBLE_WGPU_MEMBER(name) decltype(&wgpu##name) name = nullptr;
  NIBBLE_WGPU_EXTRAS(NIBBLE_WGPU_MEMBER)
#undef NIBBLE_WGPU_MEMBER
};

/// Sets the library's path, instead of searching for it. Has no effect once the library is loaded.
void set_wgpu_library(std::string path);

/// Loads the library, once. A failed attempt may be repeated.
Status load_wgpu();

/// Only after load_wgpu() succeeded.
const Wgpu& wgpu();

/// The one instance of the process; it lives until the process ends. Only after load_wgpu() succeeded.
WGPUInstance instance();

/// The last error that wgpu logged, or "". It often says why there is no adapter.
std::string last_log();

inline WGPUStringView view(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view view(WGPUStringView text) {
  if (text.data == nullptr) return {};
  return text.length == WGPU_STRLEN ? std::string_view(text.data) : std::string_view(text.data, text.length);
}

/// Owns one reference to a WebGPU object.
template <class T, auto Release>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T raw) : raw_(raw) {}
  Handle(Handle&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (raw_ != nullptr) (wgpu().*Release)(raw_);
  }

  T get() const { return raw_; }
  explicit operator bool() const { return raw_ != nullptr; }

 private:
  T raw_ = nullptr;
};

using AdapterHandle = Handle<WGPUAdapter, &Wgpu::AdapterRelease>;
using BindGroup = Handle<WGPUBindGroup, &Wgpu::BindGroupRelease>;
using BindGroupLayout = Handle<WGPUBindGroupLayout, &Wgpu::BindGroupLayoutRelease>;
using Buffer = Handle<WGPUBuffer, &Wgpu::BufferRelease>;
using CommandBuffer = Handle<WGPUCommandBuffer, &Wgpu::CommandBufferRelease>;
using CommandEncoder = Handle<WGPUCommandEncoder, &Wgpu::CommandEncoderRelease>;
using ComputePass = Handle<WGPUComputePassEncoder, &Wgpu::ComputePassEncoderRelease>;
using ComputePipeline = Handle<WGPUComputePipeline, &Wgpu::ComputePipelineRelease>;
using DeviceHandle = Handle<WGPUDevice, &Wgpu::DeviceRelease>;
using PipelineLayout = Handle<WGPUPipelineLayout, &Wgpu::PipelineLayoutRelease>;
using QuerySet = Handle<WGPUQuerySet, &Wgpu::QuerySetRelease>;
using Queue = Handle<WGPUQueue, &Wgpu::QueueRelease>;
using ShaderModule = Handle<WGPUShaderModule, &Wgpu::ShaderModuleRelease>;

}  // namespace nibble::gpu
