// An audit build of a pipeline: its WGSL, rewritten so that every access to a storage or workgroup array is written to
// a trace, with how many operators a thread executed and how many barriers it met. A pure function of a text, so that
// it takes the kernels as they are, and costs them nothing.
#pragma once

#include <string>
#include <vector>

#include "graph/status.hpp"
#include "plan/layout.hpp"

namespace nibble::test {

/// A place in the text that accesses an array: element `index` of a record begins at index * stride + offset.
struct TracedSite {
  std::size_t array = 0;
  std::uint32_t stride = 0;
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  bool loads = false;
  bool stores = false;
};

struct TracedArray {
  std::string name;
  bool is_workgroup = false;
  std::uint32_t binding = 0;  ///< of storage: as in @binding
  std::uint64_t bytes = 0;    ///< of workgroup memory
};

struct TracedKernel {
  PipelineDesc desc;  ///< with one binding more, the last: the trace
  std::vector<TracedArray> arrays{};
  std::vector<TracedSite> sites{};
};

/// What one thread did, in its order.
struct TracedLane {
  struct Access {
    std::uint32_t site = 0;
    std::uint32_t index = 0;
  };
  std::vector<Access> accesses{};
  std::uint32_t operations = 0;
  std::uint32_t barriers = 0;
  std::uint32_t all_accesses = 0;  ///< more than there are here if the trace had no room
};

/// The threads of whole workgroups, one after the other.
struct KernelTrace {
  std::uint32_t workgroup = 0;
  std::vector<TracedLane> lanes{};
};

/// Words of a trace for so many threads with so many accesses each.
constexpr std::uint64_t trace_words(std::uint64_t lanes, std::uint64_t accesses) { return lanes * (4 + 2 * accesses); }

/// `accesses`: how many of each thread there is room for. `subgroup`: how many threads the kernel shall believe a
/// subgroup to have, because the adapter's own may have fewer; what it exchanges with them is then wrong, where it goes
/// is not. A kernel that this does not understand is an error.
Result<TracedKernel> traced(const PipelineDesc& desc, std::uint32_t accesses, std::uint32_t subgroup);

KernelTrace read_trace(std::span<const std::uint32_t> words, std::uint32_t workgroup, std::uint32_t accesses);

}  // namespace nibble::test
