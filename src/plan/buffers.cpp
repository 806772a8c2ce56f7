// Buffers for tensors, and what is uploaded to them.
#include <algorithm>
#include <map>
#include <set>

#include "graph/sort.hpp"
#include "plan/storage.hpp"

namespace nibble {
namespace {

/// Assigns slots so that lifetimes in one slot do not overlap. Claims come in the order of their first use.
class MemorySlots {
 public:
  explicit MemorySlots(Layout& layout) : layout_(layout) {}

  BufferId take(std::uint64_t bytes, std::int32_t first, std::int32_t last) {
    while (!busy_.empty() && busy_.begin()->first < first) {
      const auto buffer = busy_.begin()->second;
      busy_.erase(busy_.begin());
      free_.emplace(layout_.buffers[buffer].bytes, buffer);
    }
    // The smallest free slot that is large enough; else the largest free one, grown; else a new one.
    auto best = free_.lower_bound({bytes, 0});
    if (best == free_.end() && !free_.empty()) best = free_.lower_bound({std::prev(best)->first, 0});
    auto buffer = static_cast<BufferId>(layout_.buffers.size());
    if (best == free_.end()) {
      layout_.buffers.push_back({bytes, BufferRole::slot});
    } else {
      buffer = best->second;
      free_.erase(best);
      layout_.buffers[buffer].bytes = std::max(layout_.buffers[buffer].bytes, bytes);
    }
    busy_.emplace(last, buffer);
    return buffer;
  }

 private:
  Layout& layout_;
  std::set<std::pair<std::uint64_t, BufferId>> free_;  ///< by size
  std::multimap<std::int32_t, BufferId> busy_;         ///< by last use
};

/// A buffer for each shard of columns, filled row by row.
void lay_out_columns(StorageEntry& e, Layout& layout) {
  const auto constant = static_cast<std::uint32_t>(e.constant);
  const auto columns = static_cast<std::uint64_t>(e.columns);
  const auto item = std::uint64_t{e.item_bytes};
  const auto rows = e.bytes / columns / item;
  for (auto& shard : e.shards) {
    const auto pitch = static_cast<std::uint64_t>(StorageEntry::pitch(shard)) * item;
    const auto begin = static_cast<std::uint64_t>(shard.row_begin) * item;
    const auto bytes = static_cast<std::uint64_t>(shard.row_end - shard.row_begin) * item;
    shard.buffer = static_cast<BufferId>(layout.buffers.size());
    layout.buffers.push_back({padded_size(rows * pitch), e.role});
    for (std::uint64_t r = 0; r < rows; ++r) {
      layout.uploads.push_back({shard.buffer, r * pitch, constant, r * columns * item + begin, bytes});
    }
  }
}

struct Claim {
  std::int32_t first;
  std::int32_t last;
  std::uint64_t bytes;
  BufferId* target;
};

}  // namespace

Status assign_buffers(const Graph& graph, std::span<const Operands> operands, const Limits& limits, Storage& storage,
                      Layout& layout, Ledger& ledger) {
  std::vector<Claim> claims;
  for (auto& e : storage.entries) {
    if (e.role == BufferRole::slot) {
      claims.push_back({e.first, e.last, padded_size(e.bytes), &e.shards.front().buffer});
      continue;
    }
    if (e.columns != 0) {
      const auto rows = e.bytes / static_cast<std::uint64_t>(e.columns) / e.item_bytes;
      TRY(ledger.host.pay(Size(rows) * Size(e.shards.size()) * sizeof(Upload)));
      lay_out_columns(e, layout);
      continue;
    }
    if (e.constant < 0) {
      e.shards.front().buffer = static_cast<BufferId>(layout.buffers.size());
      layout.buffers.push_back({padded_size(e.bytes), e.role});
      continue;
    }
    const auto& constant = graph.constants[e.constant];
    const std::int64_t rows = e.shards.back().row_end;
    const std::uint64_t row_bytes = rows == 0 ? 0 : e.bytes / static_cast<std::uint64_t>(rows);
    for (auto& shard : e.shards) {
      const auto begin = static_cast<std::uint64_t>(shard.row_begin) * row_bytes;
      const auto bytes = e.narrowed ? e.bytes
                         : e.shards.size() == 1
                             ? constant.length
                             : static_cast<std::uint64_t>(shard.row_end - shard.row_begin) * row_bytes;
      shard.buffer = static_cast<BufferId>(layout.buffers.size());
      layout.buffers.push_back({padded_size(bytes), e.role});
      std::uint64_t at = 0;
      for (auto part : constant.parts) {
        layout.uploads.push_back({shard.buffer, at, part, 0, graph.constants[part].length});
        at += graph.constants[part].length;
      }
      if (!constant.parts.empty()) continue;
      if (bytes != 0) {
        layout.uploads.push_back({shard.buffer, 0, static_cast<std::uint32_t>(e.constant), begin,
                                  e.narrowed ? 2 * bytes : bytes, e.narrowed});
      }
    }
  }
  storage.scratch.assign(graph.nodes.size(), kNoBuffer);
  storage.twin.assign(graph.nodes.size(), kNoBuffer);
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(graph.nodes.size()); ++n) {
    if (storage.at_load[n] != 0 && storage.scratch_bytes[n] != 0) {
      storage.scratch[n] = static_cast<BufferId>(layout.buffers.size());
      layout.buffers.push_back({padded_size(storage.scratch_bytes[n]), BufferRole::loading});
    } else if (storage.scratch_bytes[n] != 0) {
      claims.push_back({n, n, padded_size(storage.scratch_bytes[n]), &storage.scratch[n]});
    }
    if (storage.needs_twin[n] != 0) {
      const auto bytes = storage.entries[storage.entry_of[operands[n].outputs.front()]].bytes;
      claims.push_back({n, n, padded_size(bytes), &storage.twin[n]});
    }
  }
  // By first use, larger ones first, so that slots rarely have to grow.
  heap_sort(claims,
            [](const Claim& a, const Claim& b) { return a.first != b.first ? a.first < b.first : a.bytes > b.bytes; });
  MemorySlots slots(layout);
  for (const auto& c : claims) {
    if (c.bytes > limits.max_buffer_size || c.bytes > limits.max_storage_binding_size) {
      return fail(ErrorCode::unsupported,
                  "a working buffer of {} bytes is needed, but a buffer on this device holds at most {}", c.bytes,
                  std::min(limits.max_buffer_size, limits.max_storage_binding_size));
    }
    *c.target = slots.take(c.bytes, c.first, c.last);
  }
  return {};
}

}  // namespace nibble
