// Which tensor lives in which buffer. Views share their source's storage where nobody can tell; slots are shared by
// tensors whose lifetimes do not meet; constants with the same bytes are stored once, unless somebody writes them.
#pragma once

#include "nibble/options.hpp"
#include "plan/layout.hpp"

namespace nibble {

struct StorageEntry {
  BufferRole role = BufferRole::slot;
  std::uint64_t bytes = 0;
  std::int32_t constant = -1;  ///< what fills it, for constants and states
  bool narrowed = false;       ///< from float32 to float16
  std::int32_t first = 0;      ///< first and last node that touch it; inputs start at -1, outputs end at the node count
  std::int32_t last = 0;
  std::int32_t input = -1;    ///< the program input it holds, unless a node writes it too
  std::vector<Shard> shards;  ///< one, or several for a large constant
  std::int64_t columns = 0;  ///< of the tensor, where shards are columns of it: then their rows are padded, see pitch()
  std::size_t item_bytes = 0;

  /// Elements from one row of a shard of columns to the next.
  static std::int64_t pitch(const Shard& shard) { return (shard.row_end - shard.row_begin + 3) / 4 * 4; }
};

struct Storage {
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::vector<std::uint32_t> entry_of;  ///< per value; kNone for what needs no memory
  std::vector<StorageEntry> entries;
  std::vector<BufferId> scratch;             ///< per node: its working memory
  std::vector<std::uint64_t> scratch_bytes;  ///< per node
  std::vector<BufferId> twin;                ///< per node: where the output is written when it is also an input
  std::vector<std::uint8_t> needs_twin;      ///< per node

  bool same(ValueId a, ValueId b) const { return entry_of[a] != kNone && entry_of[a] == entry_of[b]; }
};

/// The tensor and SymInt values among a node's arguments, lists opened: what it reads and what it writes.
struct Operands {
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  bool reads_data = false;  ///< on the host, before every call
};
Operands operands_of(const Graph& graph, const Node& node);

/// The most that one buffer may hold and one binding may show; 32-bit byte offsets reach all of it.
std::uint64_t largest_buffer(const Limits& limits);

/// First half: entries, lifetimes, shards' row ranges. No buffer is assigned yet.
Result<Storage> analyze_storage(const Graph& graph, std::span<const Operands> operands, const Limits& limits,
                                const Options& options);

/// Second half, when the nodes' scratch sizes are known: buffers and uploads.
Status assign_buffers(const Graph& graph, std::span<const Operands> operands, const Limits& limits, Storage& storage,
                      Layout& layout);

}  // namespace nibble
