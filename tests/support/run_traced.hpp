// Runs some workgroups of a kernel and traces them.
#pragma once

#include <cstring>

#include "support/access_counts.hpp"
#include "support/run_kernel.hpp"

namespace nibble::test {

struct TracedRun {
  TracedKernel kernel;
  KernelTrace trace;
};

/// Workgroups [first_group, first_group + groups) of a kernel whose parameters and buffers these are. There is room for
/// `accesses` accesses of each thread; the kernel takes subgroups for so large as `subgroup`.
inline Result<TracedRun> run_traced(gpu::Device& device, const PipelineDesc& desc,
                                    const std::vector<WGPUBuffer>& buffers, std::span<const std::byte> params,
                                    std::uint32_t first_group, std::uint32_t groups, std::uint32_t workgroup,
                                    std::uint32_t accesses, std::uint32_t subgroup) {
  TracedRun run;
  TRY_ASSIGN(run.kernel, traced(desc, accesses, subgroup));
  std::vector<std::byte> block(params.begin(), params.end());
  block.resize(std::max(block.size(), sizeof(first_group)));
  std::memcpy(block.data(), &first_group, sizeof(first_group));
  std::vector<BoundBuffer> bound;
  for (const auto& buffer : buffers) bound.push_back({.buffer = buffer});
  const auto count = trace_words(std::uint64_t{groups} * workgroup, accesses);
  TRY_ASSIGN(const auto words, run_kernel(device, run.kernel.desc, block, bound, count, {groups, 1, 1}));
  run.trace = read_trace(words, workgroup, accesses);
  return run;
}

}  // namespace nibble::test
