// Owned references to WebGPU objects.
#pragma once

#include <utility>

#include "gpu/engines/engine.hpp"
#include "gpu/process.hpp"

namespace nibble::gpu {

/// Owns one reference to an object of an engine.
template <class T, auto Release>
class Handle {
 public:
  Handle() = default;
  Handle(Engine& engine, T raw) : engine_(&engine), raw_(raw) {
    if (raw_ != nullptr) engine.count(1);
  }
  Handle(Handle&& other) noexcept : engine_(other.engine_), raw_(std::exchange(other.raw_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(engine_, other.engine_);
    std::swap(raw_, other.raw_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (raw_ == nullptr || is_forked()) return;
    (engine_->call().*Release)(raw_);
    engine_->count(-1);
  }

  T get() const { return raw_; }
  explicit operator bool() const { return raw_ != nullptr; }

 private:
  Engine* engine_ = nullptr;
  T raw_ = nullptr;
};

using AdapterHandle = Handle<WGPUAdapter, &Functions::AdapterRelease>;
using BindGroup = Handle<WGPUBindGroup, &Functions::BindGroupRelease>;
using BindGroupLayout = Handle<WGPUBindGroupLayout, &Functions::BindGroupLayoutRelease>;
using Buffer = Handle<WGPUBuffer, &Functions::BufferRelease>;
using CommandBuffer = Handle<WGPUCommandBuffer, &Functions::CommandBufferRelease>;
using CommandEncoder = Handle<WGPUCommandEncoder, &Functions::CommandEncoderRelease>;
using ComputePass = Handle<WGPUComputePassEncoder, &Functions::ComputePassEncoderRelease>;
using ComputePipeline = Handle<WGPUComputePipeline, &Functions::ComputePipelineRelease>;
using DeviceHandle = Handle<WGPUDevice, &Functions::DeviceRelease>;
using PipelineLayout = Handle<WGPUPipelineLayout, &Functions::PipelineLayoutRelease>;
using QuerySet = Handle<WGPUQuerySet, &Functions::QuerySetRelease>;
using Queue = Handle<WGPUQueue, &Functions::QueueRelease>;
using ShaderModule = Handle<WGPUShaderModule, &Functions::ShaderModuleRelease>;

}  // namespace nibble::gpu
