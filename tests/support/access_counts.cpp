#include "support/access_counts.hpp"

#include <algorithm>
#include <array>
#include <set>

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

/// An instruction.
void add(ArrayCount& to, const TracedSite& site, std::span<const Bytes64> ranges, std::set<std::uint64_t>& touched) {
  const std::uint64_t times = (site.loads ? 1U : 0U) + (site.stores ? 1U : 0U);
  if (site.loads) to.loads += ranges.size();
  if (site.stores) to.stores += ranges.size();
  for (const auto& [first, end] : ranges) to.useful += times * (end - first);
  const auto sectors = units(ranges, kSectorBytes);
  to.sectors += times * sectors.size();
  touched.insert(sectors.begin(), sectors.end());
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
      std::vector<std::vector<std::vector<Bytes64>>> instructions(kernel.sites.size());
      for (std::size_t l = first; l < std::min<std::size_t>(first + subgroup, group + trace.workgroup); ++l) {
        const auto& lane = trace.lanes[l];
        counts.operations += lane.operations;
        counts.barriers = std::max(counts.barriers, lane.barriers);
        counts.accesses += lane.accesses.size();
        counts.all_accesses += std::max<std::size_t>(lane.all_accesses, lane.accesses.size());
        std::vector<std::uint32_t> times(kernel.sites.size());
        for (const auto& access : lane.accesses) {
          if (access.site >= kernel.sites.size()) continue;
          auto& of_site = instructions[access.site];
          const auto time = times[access.site]++;
          if (time == of_site.size()) of_site.emplace_back();
          of_site[time].push_back(bytes_of(kernel.sites[access.site], access.index));
        }
      }
      for (std::size_t s = 0; s < instructions.size(); ++s) {
        const auto& site = kernel.sites[s];
        auto& array = counts.arrays[site.array];
        for (const auto& ranges : instructions[s]) {
          add(array, site, ranges, touched[site.array]);
          if (kernel.arrays[site.array].is_workgroup) add_workgroup(array, ranges);
        }
      }
    }
    for (std::size_t i = 0; i < touched.size(); ++i) counts.arrays[i].group_sectors += touched[i].size();
  }
  return counts;
}

}  // namespace nibble::test
