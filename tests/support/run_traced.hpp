// Runs some workgroups of a kernel and traces them.
#pragma once

#include <cstring>
#include <numeric>

#include "gpu/device.hpp"
#include "gpu/readback.hpp"
#include "support/access_counts.hpp"

namespace nibble::test {

struct TracedRun {
  TracedKernel kernel;
  KernelTrace trace;
};

/// Workgroups [first_group, first_group + groups) of a kernel whose parameters and buffers these are. There is room for
/// `accesses` accesses of each thread; the kernel takes subgroups for so large as `subgroup`.
inline Result<TracedRun> run_traced(gpu::Device& device, const PipelineDesc& desc, std::vector<WGPUBuffer> buffers,
                                    std::span<const std::byte> params, std::uint32_t first_group, std::uint32_t groups,
                                    std::uint32_t workgroup, std::uint32_t accesses, std::uint32_t subgroup) {
  TracedRun run;
  TRY_ASSIGN(run.kernel, traced(desc, accesses, subgroup));
  TRY_ASSIGN(const auto pipeline, device.pipelines().get(run.kernel.desc));
  const auto& w = device.call();
  std::array<std::byte, kParamsStride> block{};
  std::ranges::copy(params, block.begin());
  std::memcpy(block.data(), &first_group, sizeof(first_group));
  TRY_ASSIGN(const auto uniform, device.make_buffer(block.size(), WGPUBufferUsage_Uniform | WGPUBufferUsage_CopyDst,
                                                    "making parameters of a trace"));
  w.QueueWriteBuffer(device.queue(), uniform.get(), 0, block.data(), block.size());
  std::vector<std::uint32_t> words(trace_words(std::uint64_t{groups} * workgroup, accesses));
  const std::uint64_t bytes = words.size() * sizeof(words[0]);
  TRY_ASSIGN(const auto trace, device.make_buffer(bytes, WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc,
                                                  "making the buffer of a trace"));
  buffers.push_back(trace.get());
  std::vector<WGPUBindGroupEntry> entries(buffers.size() + 1);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].binding = static_cast<std::uint32_t>(i);
    entries[i].buffer = i == 0 ? uniform.get() : buffers[i - 1];
    entries[i].size = i == 0 ? kParamsStride : WGPU_WHOLE_SIZE;
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
    w.ComputePassEncoderDispatchWorkgroups(pass.get(), groups, 1, 1);
    w.ComputePassEncoderEnd(pass.get());
  }
  w.CommandEncoderCopyBufferToBuffer(encoder.get(), trace.get(), 0, readback.buffer(), 0, bytes);
  const gpu::CommandBuffer commands = device.finish(encoder);
  TRY(scope.close("encoding a traced dispatch"));
  const auto submission = device.submit(commands);
  readback.request(device, bytes);
  TRY_ASSIGN(const auto data, readback.wait(device, submission));
  std::memcpy(words.data(), data.data(), bytes);
  readback.release(device);
  run.trace = read_trace(words, workgroup, accesses);
  return run;
}

}  // namespace nibble::test
