// Finds out which variants of kernels are fast on a device: it times those of every choice that a plan has, node by
// node.
#pragma once

#include "gpu/device.hpp"
#include "gpu/uploader.hpp"
#include "plan/tuning_rows.hpp"

namespace nibble::gpu {

struct Tuned {
  std::vector<TunedRow> rows;
  std::vector<std::string> refused;  ///< sentences: what cannot be measured, and variants whose results differ
  std::size_t measured = 0;          ///< of so many cases
  std::size_t cases = 0;
  double milliseconds = 0;
  /// Why it ended; rows are what was found before.
  enum class Ended : std::uint8_t { complete, out_of_time, stopped } ended = Ended::complete;
};

/// Measures for so many milliseconds at most, the most important nodes first. `source` has the constants of the plan's
/// graph, `options` are those of the plan. `progress` gets how many cases are done, and how many there are. Fails only
/// where the device does.
Result<Tuned> tune(const std::shared_ptr<Device>& device, const std::shared_ptr<const Plan>& plan,
                   const Options& options, Registry registry, ConstantSource& source, std::uint64_t milliseconds,
                   const Progress& progress);

}  // namespace nibble::gpu
