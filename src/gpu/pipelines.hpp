// The compiled kernels of a device, shared by all models on it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "gpu/handles.hpp"
#include "plan/layout.hpp"

namespace nibble::gpu {

class Device;

/// Binding 0 is the uniform block of parameters, the rest are storage buffers. The list of accesses identifies a
/// layout.
struct BindLayout {
  BindGroupLayout group;
  PipelineLayout pipeline;
};

/// A compiled kernel. It keeps its layout and module alive, so that other pipelines find them in the cache.
struct Pipeline {
  std::shared_ptr<const BindLayout> layout;
  std::shared_ptr<const ShaderModule> module;
  ComputePipeline handle;
};

class Pipelines {
 public:
  /// So many that nobody uses are kept, so that loading a program again compiles nothing; those that were used last.
  static constexpr std::size_t kMostUnused = 256;

  explicit Pipelines(Device& device) : device_(device) {}

  /// Finds or compiles a kernel. Nothing is locked while it compiles; who wants the same one meanwhile waits for it.
  Result<std::shared_ptr<const Pipeline>> get(const PipelineDesc& desc);
  /// How many it has compiled so far.
  std::size_t compiled() const { return compiled_; }
  /// How many GPU objects there are in this process without those that it keeps.
  std::size_t other_objects() const;
  /// Keeps none any longer. Only for the device's end: nobody else may use this.
  void clear() { pipelines_.clear(); }

  /// Called when a kernel is about to be compiled.
  std::function<void()> on_compile_for_test;

 private:
  struct Entry {
    std::shared_ptr<const Pipeline> pipeline;  ///< null while somebody compiles it
    std::uint64_t last_use = 0;
  };

  Result<std::shared_ptr<const Pipeline>> compile(const PipelineDesc& desc);
  std::shared_ptr<const BindLayout> bind_layout(std::span<const Access> bindings);
  std::shared_ptr<const ShaderModule> shader_module(const PipelineDesc& desc);
  /// Takes out those that are unused for the longest time, beyond kMostUnused. The caller frees them without the lock.
  std::vector<std::shared_ptr<const Pipeline>> take_unused();

  Device& device_;
  mutable std::mutex mutex_;
  std::condition_variable compiled_one_;
  std::map<std::string, std::weak_ptr<const BindLayout>> layouts_;
  std::map<std::string, std::weak_ptr<const ShaderModule>> modules_;
  std::map<std::string, Entry> pipelines_;
  std::uint64_t uses_ = 0;
  std::atomic<std::size_t> compiled_ = 0;
};

}  // namespace nibble::gpu
