#include "plan/batches.hpp"

#include <algorithm>
#include <limits>

namespace nibble {
namespace {

/// A dispatch costs something even if it does nothing, so this many fill a batch.
constexpr std::uint64_t kMostInBatch = 8192;

}  // namespace

std::uint64_t work_of(const Kernel& kernel) {
  const Size least = Size(kernel.threads) * kernel.bind.size();
  if (!kernel.work.valid() || !least.valid()) return std::numeric_limits<std::uint64_t>::max();
  return std::max(kernel.work.unchecked(), least.unchecked());
}

std::uint64_t default_batch_work(const DeviceProfile& profile) {
  switch (profile.kind) {
    case AdapterKind::cpu: return std::uint64_t{1} << 26;
    case AdapterKind::integrated:
    case AdapterKind::unknown: return std::uint64_t{1} << 31;
    case AdapterKind::discrete: return std::uint64_t{1} << 33;
  }
  return std::uint64_t{1} << 26;
}

void cut_batches(std::span<const Dispatch* const> dispatches, std::uint64_t most, std::vector<std::uint32_t>& ends) {
  ends.clear();
  const auto least = std::max<std::uint64_t>(1, most / kMostInBatch);
  std::uint64_t left = most;
  for (std::size_t i = 0; i < dispatches.size(); ++i) {
    const auto work = std::max(dispatches[i]->work, least);
    if (work > left && i != 0) {
      ends.push_back(static_cast<std::uint32_t>(i));
      left = most;
    }
    left -= std::min(work, left);
  }
  if (!dispatches.empty()) ends.push_back(static_cast<std::uint32_t>(dispatches.size()));
}

}  // namespace nibble
