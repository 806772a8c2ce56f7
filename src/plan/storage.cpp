#include "plan/storage.hpp"

#include <algorithm>
#include <map>

namespace nibble {
namespace {

class Analysis {
 public:
  Analysis(const Graph& graph, std::span<const Operands> operands, Ledger& ledger)
      : graph_(graph),
        operands_(operands),
        ledger_(ledger),
        root_(graph.values.size()),
        last_write_(graph.values.size(), -1),
        writes_(graph.values.size()),
        touched_(graph.values.size()) {
    for (ValueId v = 0; v < root_.size(); ++v) root_[v] = v;
  }

  Result<Storage> run(const Limits& limits, const Options& options) {
    find_writes();
    find_aliases();
    find_load_nodes();
    make_entries();
    find_loading_entries();
    measure_lifetimes();
    TRY(split_constants(largest_buffer(limits), options.max_shard_bytes / 16 * 16));
    TRY(find_twins());
    return std::move(storage_);
  }

 private:
  ValueId root(ValueId v) const {
    while (root_[v] != v) v = root_[v];
    return v;
  }
  std::int32_t node_count() const { return static_cast<std::int32_t>(graph_.nodes.size()); }

  void find_writes() {
    for (std::int32_t n = 0; n < node_count(); ++n) {
      for (auto v : operands_[n].inputs) touched_[v] = true;
      for (auto v : operands_[n].outputs) {
        touched_[v] = true;
        last_write_[v] = n;
        ++writes_[v];
      }
    }
    for (auto v : graph_.outputs) touched_[v] = true;
  }

  // What depends on constants alone is computed once. Not where bad indices could be found: nobody would be told.
  void find_load_nodes() {
    storage_.at_load.assign(graph_.nodes.size(), 0);
    std::vector<bool> is_known(graph_.values.size());
    std::vector<bool> is_open(graph_.values.size());
    for (auto v : graph_.inputs) is_open[v] = true;
    for (auto v : graph_.outputs) is_open[v] = true;
    for (ValueId v = 0; v < is_known.size(); ++v) {
      const auto* t = graph_.tensor(v);
      is_known[v] = t != nullptr && t->constant >= 0 && writes_[v] == 0 && !is_open[v];
    }
    const auto is_fresh = [&](ValueId v) {
      const auto* t = graph_.tensor(v);
      return t != nullptr && t->constant < 0 && writes_[v] == 1 && !is_open[v];
    };
    for (std::int32_t n = 0; n < node_count(); ++n) {
      const auto& [inputs, outputs, reads_data] = operands_[n];
      const auto& signature = *graph_.nodes[n].signature;
      if (reads_data || inputs.empty() || signature.has(Role::ids) || signature.has(Role::tensors)) continue;
      if (!std::ranges::all_of(inputs, [&](ValueId v) { return is_known[v]; })) continue;
      if (!std::ranges::all_of(outputs, is_fresh)) continue;
      storage_.at_load[n] = 1;
      for (auto v : outputs) is_known[v] = true;
    }
  }

  bool is_made_at_load(ValueId v) const { return last_write_[v] >= 0 && storage_.at_load[last_write_[v]] != 0; }

  // What only dispatches at load need is not kept.
  void find_loading_entries() {
    std::vector<bool> is_kept(storage_.entries.size());
    const auto keep = [&](ValueId v) {
      if (storage_.entry_of[v] != Storage::kNone) is_kept[storage_.entry_of[v]] = true;
    };
    for (std::int32_t n = 0; n < node_count(); ++n) {
      if (storage_.at_load[n] != 0) continue;
      std::ranges::for_each(operands_[n].inputs, keep);
      std::ranges::for_each(operands_[n].outputs, keep);
    }
    std::ranges::for_each(graph_.outputs, keep);
    for (std::size_t e = 0; e < is_kept.size(); ++e) {
      auto& role = storage_.entries[e].role;
      if (role == BufferRole::constant && !is_kept[e]) role = BufferRole::loading;
    }
  }

  // A view is an alias only if nothing writes its source later, or itself at any other time: then no reader sees a
  // difference.
  void find_aliases() {
    std::vector<bool> is_input(graph_.values.size());
    for (auto v : graph_.inputs) is_input[v] = true;
    for (std::int32_t n = 0; n < node_count(); ++n) {
      const auto viewed = graph_.nodes[n].viewed();
      if (!viewed) continue;
      const ValueId in = *viewed;
      const ValueId out = graph_.nodes[n].out();
      const auto* a = graph_.tensor(in);
      const auto* b = graph_.tensor(out);
      if (a == nullptr || b == nullptr || in == out || a->dtype != b->dtype || b->constant >= 0) continue;
      if (a->shape.numel() != b->shape.numel() || writes_[out] > 1 || root_[out] != out) continue;
      const ValueId source = root(in);
      if (last_write_[source] > n || is_input[out]) continue;
      root_[out] = source;
    }
  }

  void make_entries() {
    storage_.entry_of.assign(graph_.values.size(), Storage::kNone);
    std::map<std::string, std::uint32_t> by_content;
    for (ValueId v = 0; v < graph_.values.size(); ++v) {
      const auto* tensor = graph_.tensor(v);
      if (tensor == nullptr || !touched_[v] || root_[v] != v) continue;
      const bool is_constant = tensor->constant >= 0;
      const bool written = last_write_[v] >= 0;
      if (is_constant && !written && !graph_.constants[tensor->constant].key.empty()) {
        // Shards are ranges of rows, so only tensors of the same shape share storage.
        auto content = fmt::format("{} {} {}", graph_.constants[tensor->constant].key, tensor->dtype, tensor->shape);
        const auto [it, is_new] = by_content.emplace(std::move(content), storage_.entries.size());
        if (!is_new) {
          storage_.entry_of[v] = it->second;
          continue;
        }
      }
      StorageEntry entry;
      entry.role = is_constant && written              ? BufferRole::state
                   : is_constant || is_made_at_load(v) ? BufferRole::constant
                                                       : BufferRole::slot;
      entry.constant = tensor->constant;
      entry.narrowed = tensor->narrowed;
      entry.bytes = Size::bytes(tensor->shape, tensor->dtype).unchecked();
      entry.first = node_count();
      entry.last = -1;
      storage_.entry_of[v] = static_cast<std::uint32_t>(storage_.entries.size());
      storage_.entries.push_back(std::move(entry));
    }
    for (ValueId v = 0; v < graph_.values.size(); ++v) {
      if (graph_.tensor(v) != nullptr && touched_[v]) storage_.entry_of[v] = storage_.entry_of[root(v)];
    }
  }

  void touch(ValueId v, std::int32_t when) {
    if (storage_.entry_of[v] == Storage::kNone) return;
    auto& e = storage_.entries[storage_.entry_of[v]];
    e.first = std::min(e.first, when);
    e.last = std::max(e.last, when);
  }

  void measure_lifetimes() {
    for (std::int32_t n = 0; n < node_count(); ++n) {
      for (auto v : operands_[n].inputs) touch(v, n);
      for (auto v : operands_[n].outputs) touch(v, n);
    }
    for (auto v : graph_.outputs) touch(v, node_count());
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      const ValueId v = graph_.inputs[i];
      touch(v, -1);
      if (storage_.entry_of[v] != Storage::kNone && last_write_[v] < 0) {
        storage_.entries[storage_.entry_of[v]].input = static_cast<std::int32_t>(i);
      }
    }
  }

  /// With its buffer and its upload.
  static constexpr std::size_t kBytesPerShard = sizeof(Shard) + sizeof(BufferDesc) + sizeof(Upload);
  static constexpr std::int64_t kAny = -1;
  static constexpr std::int64_t kNoColumns = -2;

  /// Per entry: how many columns all its readers see, if all of them accept shards of columns.
  std::vector<std::int64_t> columns_of_entries() const {
    std::vector<std::int64_t> columns(storage_.entries.size(), kAny);
    const auto see = [&](ValueId v, std::int64_t count) {
      const auto index = storage_.entry_of[v];
      if (index != Storage::kNone)
        columns[index] = columns[index] == kAny || columns[index] == count ? count : kNoColumns;
    };
    for (const auto& node : graph_.nodes) {
      // A view reads nothing.
      const auto viewed = node.signature->has(Role::view) ? storage_.entry_of[node.out()] : Storage::kNone;
      for_each_operand(graph_, node, [&](ValueId v, const Arg& arg) {
        const auto* tensor = graph_.tensor(v);
        if (tensor == nullptr || (viewed != Storage::kNone && storage_.entry_of[v] == viewed)) return;
        const bool wants = arg.role == Role::columns && tensor->shape.rank() != 0;
        see(v, wants ? tensor->shape[tensor->shape.rank() - 1] : kNoColumns);
      });
    }
    for (auto v : graph_.outputs) see(v, kNoColumns);
    return columns;
  }

  /// Splits into shards of columns, in multiples of four, so that rows of a shard begin at whole words. False if not
  /// even four columns fit, or if there would be too many uploads (one for each row of a shard).
  static bool split_columns(StorageEntry& e, const TensorValue& tensor, std::int64_t columns, std::uint64_t most) {
    const auto step = static_cast<std::int64_t>(most / (e.bytes / static_cast<std::uint64_t>(columns))) / 4 * 4;
    constexpr std::uint64_t kMostUploads = 1 << 20;
    const auto item = size_of(tensor.dtype);
    if (step == 0 || e.bytes / item / static_cast<std::uint64_t>(step) > kMostUploads) return false;
    for (std::int64_t c = 0; c < columns; c += step) e.shards.push_back({0, c, std::min(columns, c + step)});
    e.columns = columns;
    e.item_bytes = item;
    return true;
  }

  // Splits constants that are too large for one buffer by rows, or by columns. Ops read them with
  // Lowering::for_each_row_range.
  Status split_constants(std::uint64_t largest, std::uint64_t wanted) {
    const auto columns_of = columns_of_entries();
    for (ValueId v = 0; v < graph_.values.size(); ++v) {
      const auto index = storage_.entry_of[v];
      if (index == Storage::kNone || root_[v] != v) continue;
      auto& e = storage_.entries[index];
      if (!e.shards.empty()) continue;
      const auto& tensor = *graph_.tensor(v);
      const std::int64_t rows = tensor.shape.rank() == 0 ? 1 : tensor.shape[0];
      const bool may_split = e.role != BufferRole::state && e.constant >= 0;
      const auto most = wanted != 0 && may_split ? std::min(largest, wanted) : largest;
      if (padded_size(e.bytes) <= most) {
        e.shards.push_back({0, 0, rows});
        continue;
      }
      if (!may_split) {
        return fail(ErrorCode::unsupported,
                    "a tensor of shape {} ({}) takes {} bytes, but a buffer on this device holds at most {}",
                    tensor.shape, tensor.dtype, e.bytes, most);
      }
      if (!graph_.constants[e.constant].parts.empty()) {
        return fail(ErrorCode::internal, "joined constants of {} bytes are too large for one buffer", e.bytes);
      }
      const std::int64_t columns = tensor.shape.rank() == 0 ? 1 : tensor.shape[tensor.shape.rank() - 1];
      const bool fits_columns = columns_of[index] == kAny || columns_of[index] == columns;
      if (fits_columns && split_columns(e, tensor, columns, most)) continue;
      const std::uint64_t row_bytes = e.bytes / static_cast<std::uint64_t>(rows);
      const auto per_shard = static_cast<std::int64_t>(most / std::max<std::uint64_t>(1, row_bytes));
      if (per_shard == 0) {
        return fail(
            ErrorCode::unsupported,
            "one row of a constant of shape {} ({}) takes {} bytes, but a buffer on this device holds at most {}",
            tensor.shape, tensor.dtype, row_bytes, most);
      }
      // If padding to 16 bytes would exceed the limit, put one row less into each shard.
      const std::int64_t step = padded_size(row_bytes * static_cast<std::uint64_t>(per_shard)) <= most
                                    ? per_shard
                                    : std::max<std::int64_t>(1, per_shard - 1);
      TRY(ledger_.host.pay(Size::from_signed((rows - 1) / step + 1) * kBytesPerShard));
      for (std::int64_t r = 0; r < rows; r += step) e.shards.push_back({0, r, std::min(rows, r + step)});
    }
    return {};
  }

  /// One result may go through a second buffer. State, and results of which there are several, are written in place.
  Status check_apart(const Node& node) {
    const auto is_written = [](const Arg& arg) { return is_output(arg.role) || arg.role == Role::state; };
    for_each_operand(graph_, node, [&](ValueId v, const Arg& arg) {
      const auto index = storage_.entry_of[v];
      if (!is_written(arg) && index != Storage::kNone) read_as_[index] = &arg;
    });
    Status status;
    for_each_operand(graph_, node, [&](ValueId v, const Arg& arg) {
      const auto index = storage_.entry_of[v];
      if (!is_written(arg) || arg.role == Role::view || index == Storage::kNone || read_as_[index] == nullptr) return;
      status = fail(ErrorCode::unsupported, "{}: {} has the memory of {}, which is read while it is written",
                    node.name(), arg.name, read_as_[index]->name);
    });
    for_each_operand(graph_, node, [&](ValueId v, const Arg&) {
      if (storage_.entry_of[v] != Storage::kNone) read_as_[storage_.entry_of[v]] = nullptr;
    });
    return status;
  }

  Status find_twins() {
    storage_.needs_twin.assign(graph_.nodes.size(), 0);
    storage_.scratch_bytes.assign(graph_.nodes.size(), 0);
    read_as_.assign(storage_.entries.size(), nullptr);
    for (std::int32_t n = 0; n < node_count(); ++n) {
      const auto& signature = *graph_.nodes[n].signature;
      if (signature.mutates() || operands_[n].outputs.size() != 1) TRY(check_apart(graph_.nodes[n]));
      if (signature.has(Role::view) || signature.mutates() || operands_[n].outputs.size() != 1) continue;
      for (auto in : operands_[n].inputs) {
        if (storage_.same(in, operands_[n].outputs.front())) storage_.needs_twin[n] = 1;
      }
    }
    return {};
  }

  const Graph& graph_;
  std::span<const Operands> operands_;
  Ledger& ledger_;
  std::vector<ValueId> root_;
  std::vector<std::int32_t> last_write_;
  std::vector<std::int32_t> writes_;
  std::vector<bool> touched_;
  std::vector<const Arg*> read_as_;  ///< per entry: the argument that reads it, while one node is checked
  Storage storage_;
};

}  // namespace

std::uint64_t padded_size(std::uint64_t bytes) {
  return std::max<std::uint64_t>(16, Size(bytes).align_up(16).unchecked());
}

std::uint64_t largest_buffer(const Limits& limits) {
  return std::min({limits.max_buffer_size, limits.max_storage_binding_size, std::uint64_t{0xffffffff}}) / 16 * 16;
}

Operands operands_of(const Graph& graph, const Node& node) {
  Operands operands{.inputs = {}, .outputs = {}, .reads_data = node.signature->has(Role::host)};
  const auto add = [&](ValueId v, std::vector<ValueId>& to) {
    const bool counts = graph.tensor(v) != nullptr || std::holds_alternative<SymInt>(graph.values[v]);
    if (counts) to.push_back(v);
  };
  for_each_operand(graph, node, [&](ValueId v, const Arg& arg) {
    if (!is_output(arg.role)) add(v, operands.inputs);
    if (is_output(arg.role) || arg.role == Role::state) add(v, operands.outputs);
  });
  return operands;
}

Result<Storage> analyze_storage(const Graph& graph, std::span<const Operands> operands, const Limits& limits,
                                const Options& options, Ledger& ledger) {
  return Analysis(graph, operands, ledger).run(limits, options);
}

}  // namespace nibble
