#include "support/access_counts.hpp"

#include <algorithm>
#include <array>

namespace nibble::test {
namespace {

using Bytes64 = std::pair<std::uint64_t, std::uint64_t>;  ///< first and end

Bytes64 bytes_of(const TracedSite& site, std::uint32_t index) {
  const auto first = std::uint64_t{index} * site.stride + site.offset;
  return {first, first + site.bytes};
}

/// The numbers of all units of `size` bytes that the ranges touch, each once.
std::vector<std::uint64_t> units(std::span<const Bytes64> ranges, std::uint32_t size) {
  std::vector<std::uint64_t> all;
  for (const auto& [first, end] : ranges) {
    for (auto unit = first / size; unit * size < end; ++unit) all.push_back(unit);
  }
  std::ranges::sort(all);
  const auto rest = std::ranges::unique(all);
  all.erase(rest.begin(), rest.end());
  return all;
}

void add_workgroup(ArrayCount& to, std::span<const Bytes64> ranges) {
  const auto words = units(ranges, 4);
  std::array<std::uint64_t, kBanks> banks{};
  for (const auto word : words) ++banks[word % kBanks];
  const auto rounds = std::ranges::max(banks);
  const auto fewest = (words.size() + kBanks - 1) / kBanks;
  if (fewest == 0) return;
  to.rounds += rounds;
  to.fewest_rounds += fewest;
  to.worst_conflict = std::max(to.worst_conflict, static_cast<double>(rounds) / static_cast<double>(fewest));
}

}  // namespace

Counts count(const TracedKernel& kernel, const KernelTrace& trace, std::uint32_t subgroup) {
  Counts counts{.arrays = std::vector<ArrayCount>(kernel.arrays.size())};
  if (trace.workgroup == 0) return counts;
  for (std::size_t group = 0; group + trace.workgroup <= trace.lanes.size(); group += trace.workgroup) {
    ++counts.groups;
    std::vector<std::set<std::uint64_t>> touched(kernel.arrays.size());
    for (std::size_t first = group; first < group + trace.workgroup; first += subgroup) {
      // By site and how often the thread was there.
      std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Bytes64>> instructions;
      for (std::size_t l = first; l < std::min<std::size_t>(first + subgroup, group + trace.workgroup); ++l) {
        const auto& lane = trace.lanes[l];
        counts.operations += lane.operations;
        counts.barriers = std::max(counts.barriers, lane.barriers);
        counts.is_cut |= lane.is_cut;
        std::vector<std::uint32_t> times(kernel.sites.size());
        for (const auto& access : lane.accesses) {
          if (access.site >= kernel.sites.size()) continue;
          instructions[{access.site, times[access.site]++}].push_back(
              bytes_of(kernel.sites[access.site], access.index));
        }
      }
      for (const auto& [key, ranges] : instructions) {
        const auto& site = kernel.sites[key.first];
        auto& array = counts.arrays[site.array];
        const std::uint64_t times = (site.loads ? 1U : 0U) + (site.stores ? 1U : 0U);
        if (site.loads) array.loads += ranges.size();
        if (site.stores) array.stores += ranges.size();
        for (const auto& [begin, end] : ranges) array.useful += times * (end - begin);
        const auto sectors = units(ranges, kSectorBytes);
        array.sectors += times * sectors.size();
        touched[site.array].insert(sectors.begin(), sectors.end());
        if (kernel.arrays[site.array].is_workgroup) add_workgroup(array, ranges);
      }
    }
    for (std::size_t i = 0; i < touched.size(); ++i) counts.arrays[i].group_sectors += touched[i].size();
  }
  return counts;
}

}  // namespace nibble::test
