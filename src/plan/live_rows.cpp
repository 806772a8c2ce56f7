#include "plan/live_rows.hpp"

#include <algorithm>

namespace nibble {
namespace {

/// All ops that write or read rows of a KV cache name that argument so; f16_caches relies on it too.
bool is_cache(const Arg& arg) { return arg.name.ends_with("cache"); }

/// Which entries of the storage somebody may see all of.
class Readers {
 public:
  explicit Readers(const Plan& plan)
      : graph_(plan.graph()), storage_(plan.storage()), sees_all_(storage_.entries.size()) {
    for (const auto& node : graph_.nodes) look_at(node);
    for (const auto v : graph_.outputs) mark(entry_of(v));
  }
  bool sees_all(ValueId v) const { return sees_all_[storage_.entry_of[v]] != 0; }

 private:
  std::uint32_t entry_of(ValueId v) const {
    return graph_.tensor(v) != nullptr ? storage_.entry_of[v] : Storage::kNone;
  }
  void mark(std::uint32_t entry) {
    if (entry != Storage::kNone) sees_all_[entry] = 1;
  }

  void look_at(const Node& node) {
    caches_.clear();
    bool has_mask = false;
    for_each_operand(graph_, node, [&](ValueId v, const Arg& arg) {
      if (is_cache(arg) && entry_of(v) != Storage::kNone) caches_.push_back(v);
      has_mask = has_mask || (arg.name == "attn_mask" && graph_.tensor(v) != nullptr);
    });
    // A mask says what of the cache counts: a ring's rows all may, wherever it was written last.
    for (const auto cache : caches_) {
      if (has_mask) mark(entry_of(cache));
    }
    for_each_operand(graph_, node, [&](ValueId v, const Arg& arg) {
      const auto entry = entry_of(v);
      if (is_cache(arg) || entry == Storage::kNone) return;
      const bool is_made = is_output(arg.role);
      const auto is_of = [&](ValueId cache) { return storage_.entry_of[cache] == entry; };
      if (is_made && std::ranges::any_of(caches_, is_of)) return;  // it stands for the cache
      mark(entry);
      // An output of the cache's size may be a copy of it.
      for (const auto cache : caches_) {
        if (is_made && graph_.tensor(v)->shape == graph_.tensor(cache)->shape) mark(entry_of(cache));
      }
    });
  }

  const Graph& graph_;
  const Storage& storage_;
  std::vector<std::uint8_t> sees_all_;  ///< per entry
  std::vector<ValueId> caches_;         ///< of the node
};

/// More copies than these cost more than one of the whole buffer.
constexpr std::uint64_t kMostParts = 64;

void add_rows(const StateDesc& desc, std::uint64_t rows, std::uint64_t whole, std::vector<StateRange>& ranges) {
  const auto axis = static_cast<std::size_t>(desc.row_axis);
  std::uint64_t parts = 1;
  std::uint64_t row_bytes = size_of(desc.dtype);
  for (std::size_t i = 0; i < axis; ++i) parts *= static_cast<std::uint64_t>(desc.shape[i]);
  for (std::size_t i = axis + 1; i < desc.shape.rank(); ++i) row_bytes *= static_cast<std::uint64_t>(desc.shape[i]);
  const auto extent = static_cast<std::uint64_t>(desc.shape[axis]);
  if (parts * row_bytes * rows == 0) return;
  if (parts > kMostParts || rows >= extent) {
    ranges.push_back({desc.buffer, 0, whole});
    return;
  }
  for (std::uint64_t part = 0; part < parts; ++part) {
    const auto begin = part * extent * row_bytes / 4 * 4;
    const auto end = (part * extent + rows) * row_bytes;
    ranges.push_back({desc.buffer, begin, Size(end - begin).align_up(4).unchecked()});
  }
}

}  // namespace

std::vector<std::uint8_t> counts_by_rows(const Plan& plan) {
  const auto& layout = plan.layout();
  const Readers readers(plan);
  // A value that stands for the cache is a state as well, on the same buffer: exactly one of them has the rows.
  std::vector<std::uint32_t> with_rows(layout.buffers.size());
  for (const auto& desc : layout.states) with_rows[desc.buffer] += desc.row_axis != StateDesc::kNoRows ? 1 : 0;
  std::vector<std::uint8_t> by_rows;
  by_rows.reserve(layout.states.size());
  for (const auto& desc : layout.states) {
    by_rows.push_back(with_rows[desc.buffer] == 1 && !readers.sees_all(desc.value) ? 1 : 0);
  }
  return by_rows;
}

std::vector<StateRange> live_ranges(const Layout& layout, std::span<const std::uint8_t> by_rows,
                                    std::span<const std::int64_t> rows) {
  std::vector<StateRange> ranges;
  std::vector<std::uint8_t> is_done(layout.buffers.size());
  for (std::size_t i = 0; i < layout.states.size(); ++i) {
    const auto& desc = layout.states[i];
    const auto whole = layout.buffers[desc.buffer].bytes;
    if (by_rows[i] == 0) {
      if (is_done[desc.buffer] == 0) ranges.push_back({desc.buffer, 0, whole});
      is_done[desc.buffer] = 1;
    } else if (desc.row_axis != StateDesc::kNoRows) {
      add_rows(desc, static_cast<std::uint64_t>(rows[i]), whole, ranges);
    }
  }
  return ranges;
}

}  // namespace nibble
