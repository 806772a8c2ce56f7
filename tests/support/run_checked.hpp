// Runs kernels on any data and tells which indices lie outside.
#pragma once

#include "plan/stepper.hpp"
#include "support/checked_kernel.hpp"
#include "support/run_kernel.hpp"

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
    std::vector<BoundBuffer> buffers(dispatch.binding_count);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      buffers[i].bytes = layout.buffers[dispatch.bindings[i]].bytes;
      // What is only read stays as it is.
      const auto place = desc.bindings[i] == Access::read ? i : kMaxBindings + i;
      TRY_ASSIGN(buffers[i].buffer, filled(data_[place], sizes_[place], buffers[i].bytes));
    }
    const auto params = std::span(dispatch.params).first(dispatch.params_bytes);
    TRY_ASSIGN(const auto words,
               run_kernel(device_, own, params, buffers, std::max<std::size_t>(kernel.sites.size(), 4),
                          {dispatch.grid[0], dispatch.grid[1], dispatch.grid[2]}));
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
