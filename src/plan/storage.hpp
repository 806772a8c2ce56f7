// Which tensor lives in which buffer. Views alias their source unless a later write would show. Transients with
// disjoint lifetimes share a buffer. Equal constants are stored once unless written.
#pragma once

#include "nibble/options.hpp"
#include "plan/layout.hpp"
#include "plan/ledger.hpp"

namespace nibble {

struct StorageEntry {
  BufferRole role = BufferRole::slot;
  std::uint64_t bytes = 0;
  std::int32_t constant = -1;  ///< what fills it, for constants that no node makes and for states
  bool narrowed = false;       ///< from float32 to float16
  std::int32_t first = 0;      ///< the first and last node that use it; -1 for inputs, the node count for outputs
  std::int32_t last = 0;
  std::int32_t input = -1;    ///< the program input that it holds, unless a node writes it too
  std::vector<Shard> shards;  ///< one, or several for a large constant
  std::int64_t columns = 0;   ///< of the tensor, if shards are ranges of columns; else 0
  std::size_t item_bytes = 0;

  /// The distance between two rows in a shard of columns, in elements.
  static std::int64_t pitch(const Shard& shard) { return (shard.row_end - shard.row_begin + 3) / 4 * 4; }
};

struct Storage {
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::vector<std::uint32_t> entry_of;  ///< per value; kNone if it needs no memory
  std::vector<StorageEntry> entries;
  std::vector<BufferId> scratch;             ///< per node: its working memory
  std::vector<std::uint64_t> scratch_bytes;  ///< per node
  std::vector<BufferId> twin;                ///< per node: the second buffer, for an output that is also an input
  std::vector<std::uint8_t> needs_twin;      ///< per node
  std::vector<std::uint8_t> at_load;         ///< per node: it depends on constants alone, so it runs once, at load

  bool same(ValueId a, ValueId b) const { return entry_of[a] != kNone && entry_of[a] == entry_of[b]; }
};

/// The tensors and SymInts that a node reads and writes, with the items of lists.
struct Operands {
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  bool reads_data = false;  ///< the host reads data of an input before every call
};
Operands operands_of(const Graph& graph, const Node& node);

/// The size of a buffer for so many bytes.
std::uint64_t padded_size(std::uint64_t bytes);
/// The largest size that fits one buffer, one binding and 32-bit byte offsets.
std::uint64_t largest_buffer(const Limits& limits);

/// First half: entries, lifetimes and row ranges of shards. Assigns no buffers yet.
Result<Storage> analyze_storage(const Graph& graph, std::span<const Operands> operands, const Limits& limits,
                                const Options& options, Ledger& ledger);

/// Second half, once the nodes' scratch sizes are known: assigns buffers and lists uploads.
Status assign_buffers(const Graph& graph, std::span<const Operands> operands, const Limits& limits, Storage& storage,
                      Layout& layout, Ledger& ledger);

}  // namespace nibble
