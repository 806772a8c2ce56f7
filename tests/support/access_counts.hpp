// What a trace says about a GPU that executes so many threads as one: how well its loads and stores use memory.
//
// The n-th execution of a site by each thread of a subgroup is taken for one instruction. Where threads of a subgroup
// go different ways before, that is an estimate.
#pragma once

#include "support/traced_kernel.hpp"

namespace nibble::test {

inline constexpr std::uint32_t kSectorBytes = 32;
inline constexpr std::uint32_t kBanks = 32;  ///< of workgroup memory, each four bytes wide

/// Of one array.
struct ArrayCount {
  std::uint64_t useful = 0;   ///< bytes that threads asked for
  std::uint64_t sectors = 0;  ///< of 32 bytes, that instructions touched
  std::uint64_t loads = 0;    ///< by threads
  std::uint64_t stores = 0;
  std::uint64_t group_sectors = 0;  ///< each once for a workgroup, as if all further accesses were served by a cache
  double worst_conflict = 0;        ///< of workgroup memory: rounds of an instruction against the fewest possible
  std::uint64_t rounds = 0;         ///< of workgroup memory: each serves one word of each bank
  std::uint64_t fewest_rounds = 0;

  /// Bytes that are moved for a byte that is asked for. Less than 1 where threads read the same.
  double ratio() const {
    return useful == 0 ? 0 : static_cast<double>(sectors * kSectorBytes) / static_cast<double>(useful);
  }
};

struct Counts {
  std::vector<ArrayCount> arrays{};  ///< as those of the kernel
  std::uint64_t operations = 0;      ///< of all threads: operators, accesses and built-in functions of the WGSL
  std::uint32_t barriers = 0;        ///< the most of any thread
  std::uint64_t groups = 0;
  std::uint64_t accesses = 0;
  std::uint64_t all_accesses = 0;  ///< with those that the trace had no room for

  bool is_cut() const { return accesses < all_accesses; }
};

Counts count(const TracedKernel& kernel, const KernelTrace& trace, std::uint32_t subgroup);

}  // namespace nibble::test
