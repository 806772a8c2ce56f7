// Runs kernels on any data and tells which indices lie outside.
#pragma once

#include <cstring>

#include "gpu/device.hpp"
#include "gpu/readback.hpp"
#include "plan/stepper.hpp"
#include "support/checked_kernel.hpp"

namespace nibble::test {

class CheckedRuns {
 public:
  explicit CheckedRuns(gpu::Device& device) : device_(device) {}

  /// Of those that shall run unchecked: a sentence if an index of a call's dispatches is outside.
  Result<std::string> find_outside(const Stepper& stepper) {
    const Layout& layout = stepper.plan().layout();
    for (const auto* dispatch : stepper.dispatches()) {
      const auto& desc = layout.pipelines[dispatch->pipeline];
      if (!desc.unchecked) continue;
      TRY_ASSIGN(auto found, run(*dispatch, desc, layout));
      if (!found.empty()) return stepper.plan().graph().nodes[dispatch->node].op + ": " + found;
    }
    return std::string();
  }
  /// Of one dispatch.
  Result<std::string> run(const Dispatch& dispatch, const PipelineDesc& desc, const Layout& layout) {
    const CheckedKernel kernel = checked(desc);
    auto own = kernel.desc;
    own.unchecked = false;
    TRY_ASSIGN(const auto pipeline, device_.pipelines().get(own));
    const auto& w = device_.call();
    std::array<std::byte, kParamsStride> block{};
    std::ranges::copy(std::span(dispatch.params).first(dispatch.params_bytes), block.begin());
    TRY_ASSIGN(const auto uniform, device_.make_buffer(block.size(), WGPUBufferUsage_Uniform | WGPUBufferUsage_CopyDst,
                                                       "making parameters"));
    w.QueueWriteBuffer(device_.queue(), uniform.get(), 0, block.data(), block.size());
    std::vector<std::uint32_t> words(std::max<std::size_t>(kernel.sites.size(), 4));
    const std::uint64_t bytes = words.size() * sizeof(words[0]);
    TRY_ASSIGN(const auto outside, device_.make_buffer(bytes, WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc,
                                                       "making the list of sites"));
    std::vector<WGPUBindGroupEntry> entries(dispatch.binding_count + 2);
    for (std::size_t i = 0; i < entries.size(); ++i) entries[i].binding = static_cast<std::uint32_t>(i);
    entries[0].buffer = uniform.get();
    entries[0].size = kParamsStride;
    for (std::size_t i = 0; i < dispatch.binding_count; ++i) {
      entries[i + 1].size = layout.buffers[dispatch.bindings[i]].bytes;
      // What is only read stays as it is.
      const auto place = desc.bindings[i] == Access::read ? i : kMaxBindings + i;
      TRY_ASSIGN(entries[i + 1].buffer, filled(data_[place], sizes_[place], entries[i + 1].size));
    }
    entries.back().buffer = outside.get();
    entries.back().size = bytes;
    WGPUBindGroupDescriptor descriptor{};
    descriptor.layout = pipeline->layout->group.get();
    descriptor.entryCount = entries.size();
    descriptor.entries = entries.data();
    gpu::Readback readback;
    TRY(readback.make(device_, bytes));
    gpu::ErrorScope scope(device_, gpu::ErrorScope::Catch::validation);
    const gpu::BindGroup group(device_.engine(), w.DeviceCreateBindGroup(device_.handle(), &descriptor));
    const gpu::CommandEncoder encoder = device_.make_encoder();
    {
      const gpu::ComputePass pass(device_.engine(), w.CommandEncoderBeginComputePass(encoder.get(), nullptr));
      const std::uint32_t offset = 0;
      w.ComputePassEncoderSetPipeline(pass.get(), pipeline->handle.get());
      w.ComputePassEncoderSetBindGroup(pass.get(), 0, group.get(), 1, &offset);
      w.ComputePassEncoderDispatchWorkgroups(pass.get(), dispatch.grid[0], dispatch.grid[1], dispatch.grid[2]);
      w.ComputePassEncoderEnd(pass.get());
    }
    w.CommandEncoderCopyBufferToBuffer(encoder.get(), outside.get(), 0, readback.buffer(), 0, bytes);
    const gpu::CommandBuffer commands = device_.finish(encoder);
    TRY(scope.close("encoding a checked dispatch"));
    const auto submission = device_.submit(commands);
    readback.request(device_, bytes);
    TRY_ASSIGN(const auto seen, readback.wait(device_, submission));
    std::memcpy(words.data(), seen.data(), bytes);
    readback.release(device_);
    ++runs_;
    ++kernels_[desc.label];
    for (std::size_t site = 0; site < kernel.sites.size(); ++site) {
      if (words[site] != 0) return fmt::format("{}: {} with index {}", desc.label, kernel.sites[site], words[site]);
    }
    return std::string();
  }
  std::size_t runs() const { return runs_; }
  /// By name.
  const std::map<std::string, std::size_t>& kernels() const { return kernels_; }

 private:
  static constexpr std::uint64_t kLeastBytes = 1 << 20;

  /// As data, a NaN or -1 in every place: what goes by data goes astray.
  Result<WGPUBuffer> filled(gpu::Buffer& buffer, std::uint64_t& size, std::uint64_t bytes) {
    if (bytes <= size) return buffer.get();
    size = std::max(bytes, kLeastBytes);
    TRY_ASSIGN(buffer, device_.make_buffer(size, WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst, "making any data"));
    const std::vector<std::byte> ones(size, std::byte{0xff});
    device_.call().QueueWriteBuffer(device_.queue(), buffer.get(), 0, ones.data(), size);
    return buffer.get();
  }

  gpu::Device& device_;
  std::array<gpu::Buffer, 2 * kMaxBindings> data_;
  std::array<std::uint64_t, 2 * kMaxBindings> sizes_{};
  std::size_t runs_ = 0;
  std::map<std::string, std::size_t> kernels_;
};

}  // namespace nibble::test
