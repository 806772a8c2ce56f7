// Runs one dispatch that writes words into a buffer of its own, and reads them.
#pragma once

#include <cstring>

#include "gpu/device.hpp"
#include "gpu/readback.hpp"
#include "plan/kernel.hpp"

namespace nibble::test {

/// A buffer, or the first `bytes` of it.
struct BoundBuffer {
  WGPUBuffer buffer = nullptr;
  std::uint64_t bytes = WGPU_WHOLE_SIZE;
};

/// With these parameters and buffers, and behind them the one of `count` words, which is empty before; what it holds
/// afterwards.
inline Result<std::vector<std::uint32_t>> run_kernel(gpu::Device& device, const PipelineDesc& desc,
                                                     std::span<const std::byte> params,
                                                     std::span<const BoundBuffer> buffers, std::size_t count,
                                                     std::array<std::uint32_t, 3> grid) {
  TRY_ASSIGN(const auto pipeline, device.pipelines().get(desc));
  const auto& w = device.call();
  std::array<std::byte, kParamsStride> block{};
  std::ranges::copy(params, block.begin());
  TRY_ASSIGN(const auto uniform,
             device.make_buffer(block.size(), WGPUBufferUsage_Uniform | WGPUBufferUsage_CopyDst, "making parameters"));
  w.QueueWriteBuffer(device.queue(), uniform.get(), 0, block.data(), block.size());
  std::vector<std::uint32_t> words(count);
  const std::uint64_t bytes = words.size() * sizeof(words[0]);
  TRY_ASSIGN(const auto written, device.make_buffer(bytes, WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc,
                                                    "making the buffer of what is written"));
  std::vector<WGPUBindGroupEntry> entries(buffers.size() + 2);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto bound = i == 0                ? BoundBuffer{uniform.get(), kParamsStride}
                       : i <= buffers.size() ? buffers[i - 1]
                                             : BoundBuffer{written.get(), bytes};
    entries[i].binding = static_cast<std::uint32_t>(i);
    entries[i].buffer = bound.buffer;
    entries[i].size = bound.bytes;
  }
  WGPUBindGroupDescriptor descriptor{};
  descriptor.layout = pipeline->layout->group.get();
  descriptor.entryCount = entries.size();
  descriptor.entries = entries.data();
  gpu::Readback readback;
  TRY(readback.make(device, bytes));
  gpu::ErrorScope scope(device, gpu::ErrorScope::Catch::validation);
  const gpu::BindGroup group(device.engine(), w.DeviceCreateBindGroup(device.handle(), &descriptor));
  const gpu::CommandEncoder encoder = device.make_encoder();
  {
    const gpu::ComputePass pass(device.engine(), w.CommandEncoderBeginComputePass(encoder.get(), nullptr));
    const std::uint32_t offset = 0;
    w.ComputePassEncoderSetPipeline(pass.get(), pipeline->handle.get());
    w.ComputePassEncoderSetBindGroup(pass.get(), 0, group.get(), 1, &offset);
    w.ComputePassEncoderDispatchWorkgroups(pass.get(), grid[0], grid[1], grid[2]);
    w.ComputePassEncoderEnd(pass.get());
  }
  w.CommandEncoderCopyBufferToBuffer(encoder.get(), written.get(), 0, readback.buffer(), 0, bytes);
  const gpu::CommandBuffer commands = device.finish(encoder);
  TRY(scope.close("encoding a dispatch"));
  const auto submission = device.submit(commands);
  readback.request(device, bytes);
  TRY_ASSIGN(const auto seen, readback.wait(device, submission));
  std::memcpy(words.data(), seen.data(), bytes);
  readback.release(device);
  return words;
}

}  // namespace nibble::test
