#include "plan/plan.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "graph/check.hpp"
#include "graph/passes/passes.hpp"
#include "plan/batches.hpp"
#include "plan/explorer.hpp"

namespace nibble {

namespace {

Status rewrite(Graph& graph, const Limits& limits, const Options& options, const FindSignature& find,
               IsStopWanted is_stop_wanted = nullptr) {
  const auto largest = largest_buffer(limits);
  const PassContext context{find, options.max_shard_bytes != 0 ? std::min(largest, options.max_shard_bytes) : largest,
                            is_stop_wanted};
  TRY(fold_prepack(graph));
  split_norms(graph, context);
  split_filters(graph, context);
  TRY(run_passes(graph, context, options.without_passes));
  if (options.f16_cache) f16_caches(graph);
  if (options.candidates != 0) TRY(add_candidates(graph, context, options.candidates));
  return {};
}

/// Every tensor must be written (by the caller, the file or a node) before it is read. No 64-bit element may reach the
/// GPU.
class ValueCheck {
 public:
  explicit ValueCheck(const Graph& graph) : graph_(graph), has_value_(graph.values.size()) {
    write(graph.inputs);
    for (ValueId v = 0; v < graph.values.size(); ++v) {
      if (const auto* t = graph.tensor(v); t != nullptr && t->constant >= 0) has_value_[v] = true;
    }
  }

  void write(std::span<const ValueId> values) {
    for (auto v : values) has_value_[v] = true;
  }
  bool has_value(ValueId v) const { return has_value_[v]; }

  Status check_written(std::span<const ValueId> values, std::string_view reader) const {
    for (auto v : values) {
      if (!has_value_[v])
        return fail(ErrorCode::invalid_program, "{} reads value {} before anything wrote it", reader, v);
    }
    return {};
  }

  Status check(std::span<const ValueId> values, std::string_view reader) const {
    TRY(check_written(values, reader));
    for (auto v : values) {
      if (const auto* t = graph_.tensor(v); t != nullptr && size_of(t->dtype) == 8) {
        return fail(ErrorCode::unsupported,
                    "{} reads a {} tensor, but GPUs have no 64-bit elements: export with downcast_64_bit", reader,
                    t->dtype);
      }
    }
    return {};
  }

 private:
  const Graph& graph_;
  std::vector<bool> has_value_;
};

/// A pass may replace what a node reads by its source, so it must not see a node that reads too early.
Status check_order(const Graph& graph) {
  ValueCheck values(graph);
  for (const auto& node : graph.nodes) {
    const auto operands = operands_of(graph, node);
    TRY(values.check_written(operands.inputs, node.name()));
    values.write(operands.outputs);
  }
  return values.check_written(graph.outputs, "the output list");
}

/// Takes nodes out of a graph that cannot even be lowered, and notes why. What they would have made becomes an input.
class Sieve {
 public:
  Sieve(Graph& graph, Refusals& refusals) : graph_(graph), refusals_(refusals), lent_(graph.values.size()) {}

  void bind(const FindSignature& find) {
    keep_nodes([&](Node& node) -> Status {
      Graph alone;
      alone.nodes.push_back(node);
      TRY(bind_signatures(alone, find));
      node.signature = alone.nodes.front().signature;
      return {};
    });
  }

  void check_values() {
    lent_.resize(graph_.values.size());
    ValueCheck values(graph_);
    const auto check = [&](std::span<const ValueId> read, std::string_view reader) {
      for (auto v : read) {
        if (!lent_[v] || values.has_value(v)) continue;
        graph_.inputs.push_back(v);
        values.write({&v, 1});
      }
      return values.check(read, reader);
    };
    keep_nodes([&](const Node& node) -> Status {
      const auto operands = operands_of(graph_, node);
      TRY(check(operands.inputs, node.name()));
      values.write(operands.outputs);
      return check(operands.outputs, node.name());
    });
    std::erase_if(graph_.outputs, [&](ValueId v) { return !passes(check({&v, 1}, "the output list")); });
  }

 private:
  bool passes(Status status) {
    if (status) return true;
    refusals_.add(std::move(status).error());
    return false;
  }

  template <class Check>
  void keep_nodes(const Check& check) {
    std::erase_if(graph_.nodes, [&](Node& node) {
      if (passes(check(node))) return false;
      for (auto v : node.args) {
        lent_[v] = is_data(v);
        if (const auto* list = std::get_if<ValueList>(&graph_.values[v])) {
          for (auto item : list->items) lent_[item] = is_data(item);
        }
      }
      return true;
    });
  }
  bool is_data(ValueId v) const {
    return graph_.tensor(v) != nullptr || std::holds_alternative<SymInt>(graph_.values[v]);
  }

  Graph& graph_;
  Refusals& refusals_;
  std::vector<bool> lent_;  ///< a node that was taken out may have made it
};

/// Makes a plan from a graph whose passes have run. The steps are in run().
class Planner {
 public:
  Planner(Graph graph, DeviceProfile profile, Preferences preferences, Registry registry, const Ledger& ledger) {
    parts_.ledger = ledger;
    parts_.graph = std::move(graph);
    parts_.profile = std::move(profile);
    parts_.preferences = std::move(preferences);
    for (const auto& node : parts_.graph.nodes) {
      auto& ops = parts_.ops.emplace_back();
      ops.push_back(find_op(registry, node.op));
      for (const auto& next : node.tail) ops.push_back(find_op(registry, next.op));
      parts_.operands.push_back(operands_of(parts_.graph, node));
    }
    find_rewritten();
  }

  /// With `refusals`, goes on behind nodes that fail.
  Result<std::shared_ptr<const Plan>> run(const Options& options, IsStopWanted is_stop_wanted = nullptr,
                                          Refusals* refusals = nullptr) {
    TRY(check_values());
    parts_.profile.unchecked_kernels = parts_.profile.unchecked_kernels && options.unchecked;
    parts_.profile.f16_products = parts_.profile.shader_f16 && options.f16_products;
    const auto& limits = parts_.profile.limits;
    TRY_ASSIGN(parts_.storage, analyze_storage(parts_.graph, parts_.operands, limits, options, parts_.ledger));
    Layout& layout = parts_.layout;
    layout.batch_work = options.max_batch_work != 0 ? options.max_batch_work : default_batch_work(parts_.profile);
    TRY_ASSIGN(auto needs, explore(parts_, is_stop_wanted, refusals));
    parts_.storage.scratch_bytes = std::move(needs.scratch_bytes);
    TRY(assign_buffers(parts_.graph, parts_.operands, limits, parts_.storage, parts_.layout, parts_.ledger));
    lay_out_inputs(needs);
    const bool mapped = parts_.profile.mapped_storage && !options.staged;
    TRY(lay_out_outputs(mapped));
    if (mapped) map_inputs();
    lay_out_states(needs);
    layout.max_dispatches = needs.dispatches;
    TRY(pay_for_buffers());
    layout.pipelines.assign(parts_.pipelines.descs().begin(), parts_.pipelines.descs().end());
    layout.can_fault = std::ranges::any_of(layout.pipelines, &PipelineDesc::reports_faults);
    return std::make_shared<const Plan>(std::move(parts_));
  }

 private:
  const StorageEntry* entry_of(ValueId v) const {
    const auto index = parts_.storage.entry_of[v];
    return index == Storage::kNone ? nullptr : &parts_.storage.entries[index];
  }

  /// The buffers of a model and one session, with what comes back from a call and the parameters that go in.
  Status pay_for_buffers() {
    const Layout& layout = parts_.layout;
    const auto dispatches = Size(layout.max_dispatches);
    TRY(parts_.ledger.host.pay(dispatches * (sizeof(Dispatch) + kParamsStride + sizeof(std::uint32_t))));
    TRY(parts_.ledger.device.pay(dispatches * kParamsStride + layout.staging_bytes));
    for (const auto& buffer : layout.buffers) TRY(parts_.ledger.device.pay(buffer.bytes));
    return {};
  }

  /// A state keeps its shape, whoever writes it.
  void find_rewritten() {
    const Graph& g = parts_.graph;
    std::vector<bool> is_set(g.values.size());
    for (auto v : g.inputs) is_set[v] = true;
    parts_.rewritten.assign(g.values.size(), 0);
    for (const auto& node : g.nodes) {
      for_each_operand(g, node, [&](ValueId v, const Arg& arg) {
        const auto* tensor = g.tensor(v);
        if (!is_output(arg.role) || (tensor != nullptr && tensor->constant >= 0)) return;
        if (is_set[v]) parts_.rewritten[v] = 1;
        is_set[v] = true;
      });
    }
    parts_.rewrites = std::ranges::find(parts_.rewritten, 1) != parts_.rewritten.end();
  }

  Status check_values() {
    const Graph& g = parts_.graph;
    ValueCheck values(g);
    for (std::size_t n = 0; n < g.nodes.size(); ++n) {
      const auto& [inputs, outputs, reads_data] = parts_.operands[n];
      TRY(values.check(inputs, g.nodes[n].name()));
      values.write(outputs);
      TRY(values.check(outputs, g.nodes[n].name()));
    }
    return values.check(g.outputs, "the output list");
  }

  void lay_out_inputs(const Needs& needs) {
    auto& inputs = parts_.layout.inputs;
    for (auto v : parts_.graph.inputs) {
      InputDesc in;
      in.value = v;
      if (const auto* t = parts_.graph.tensor(v)) {
        in.dtype = t->dtype;
        in.staging = t->staging;
        in.bound = t->shape;
        in.used = entry_of(v) != nullptr;
        if (in.used) in.buffer = entry_of(v)->shards.front().buffer;
      } else {
        in.is_symint = true;
      }
      inputs.push_back(std::move(in));
    }
    for (const auto& operands : parts_.operands) {
      if (!operands.reads_data) continue;
      for (auto v : operands.inputs) {
        const auto* entry = entry_of(v);
        if (entry == nullptr || entry->input < 0) continue;
        auto& input = inputs[static_cast<std::size_t>(entry->input)];
        if (input.dtype == DType::i32) input.host_read = true;
      }
    }
    for (const auto& [input, check] : needs.checks) inputs[input].checks.push_back(check);
  }

  /// With `mapped`, the host maps what lies in buffers of the session; else all is copied to one buffer.
  Status lay_out_outputs(bool mapped) {
    Layout& layout = parts_.layout;
    Size staging = 0;
    for (auto v : parts_.graph.outputs) {
      OutputDesc out;
      out.value = v;
      if (const auto* t = parts_.graph.tensor(v)) {
        out.dtype = t->dtype;
        out.staging = t->staging;
        out.bound = t->shape;
        const auto& entry = *entry_of(v);
        if (entry.shards.size() > 1) {
          return fail(ErrorCode::unsupported,
                      "an output of shape {} ({}) takes {} bytes, more than one buffer on this device holds", t->shape,
                      t->dtype, entry.bytes);
        }
        out.buffer = entry.shards.front().buffer;
        // A constant belongs to the model: others may use it while one session has it mapped.
        auto& buffer = layout.buffers[out.buffer];
        if (mapped && buffer.role != BufferRole::constant) buffer.mapped = HostUse::read;
        if (buffer.mapped == HostUse::none) staging = staging + Size(entry.bytes).align_up(16);
      } else {
        out.is_symint = true;
      }
      layout.outputs.push_back(out);
    }
    const Size all = staging + (mapped ? 0 : kFaultWords * 4);
    const auto most = parts_.profile.limits.max_buffer_size;
    if (!all.fits(most)) {
      return fail(ErrorCode::unsupported,
                  "all outputs together take {} bytes, but a buffer on this device holds at most {}",
                  staging.unchecked(), most);
    }
    layout.staging_bytes = all.unchecked();
    layout.fault_buffer = static_cast<BufferId>(layout.buffers.size());
    layout.buffers.push_back({kFaultWords * 4, BufferRole::fault, mapped ? HostUse::read : HostUse::none});
    return {};
  }

  /// The host writes inputs where kernels read them. One buffer is mapped for one use: what is read is more.
  void map_inputs() {
    for (const auto& in : parts_.layout.inputs) {
      if (!in.used) continue;
      auto& buffer = parts_.layout.buffers[in.buffer];
      if (buffer.role == BufferRole::slot && buffer.mapped == HostUse::none) buffer.mapped = HostUse::write;
    }
  }

  void lay_out_states(const Needs& needs) {
    auto& states = parts_.layout.states;
    std::vector<bool> is_known(parts_.graph.values.size());
    std::vector<std::int32_t> row_axes(parts_.graph.values.size(), StateDesc::kNoRows);
    for (const auto& [v, axis] : needs.row_axes) {
      if (row_axes[v] == StateDesc::kNoRows) row_axes[v] = axis;
    }
    for (const auto& node : parts_.graph.nodes) {
      for_each_operand(parts_.graph, node, [&](ValueId v, const Arg& arg) {
        const auto* entry = entry_of(v);
        const bool is_written = arg.role == Role::state || is_output(arg.role);
        if (!is_written || entry == nullptr || entry->role != BufferRole::state || is_known[v]) return;
        is_known[v] = true;
        const auto& t = *parts_.graph.tensor(v);
        states.push_back({v, entry->shards.front().buffer, arg.name, t.dtype, t.shape, row_axes[v]});
      });
    }
  }

  PlanParts parts_;
};

FindSignature signatures(Registry registry) {
  return [registry](std::string_view name) -> const Signature* {
    const Op* op = find_op(registry, name);
    return op != nullptr ? &op->signature : nullptr;
  };
}

}  // namespace

Result<std::shared_ptr<const Plan>> Plan::make(Graph graph, DeviceProfile profile, const Options& options,
                                               Registry registry, IsStopWanted is_stop_wanted) {
  // In C and C++, -1 is taken for the largest number.
  if (!std::in_range<std::int64_t>(options.max_shard_bytes)) {
    return fail(ErrorCode::invalid_argument, "max_shard_bytes is {}, but the most is {}", options.max_shard_bytes,
                std::numeric_limits<std::int64_t>::max());
  }
  TRY_ASSIGN(auto preferences, Preferences::make(options, all_choices(registry)));
  const auto find = signatures(registry);
  TRY(check_graph(graph));
  Ledger ledger(options);
  TRY(ledger.pay_for(graph));
  TRY(bind_signatures(graph, find));
  TRY(check_order(graph));
  TRY(rewrite(graph, profile.limits, options, find, is_stop_wanted));
  if (auto status = check_graph(graph); !status) return fail(ErrorCode::internal, "{}", status.error().message);
  return Planner(std::move(graph), std::move(profile), std::move(preferences), registry, ledger)
      .run(options, is_stop_wanted);
}

Result<std::shared_ptr<const Plan>> Plan::lower(Graph graph, DeviceProfile profile, Preferences preferences,
                                                const Options& options, Registry registry) {
  Ledger ledger(options);
  TRY(ledger.pay_for(graph));
  return Planner(std::move(graph), std::move(profile), std::move(preferences), registry, ledger).run(options);
}

Refusals Plan::refusals(Graph graph, DeviceProfile profile, Options options, Registry registry) {
  Refusals found;
  if (make(graph, profile, options, registry)) return found;
  const auto plan = [&]() -> Status {
    TRY_ASSIGN(auto preferences, Preferences::make(options, all_choices(registry)));
    const auto find = signatures(registry);
    TRY(check_graph(graph));
    Ledger ledger(options);
    TRY(ledger.pay_for(graph));
    Sieve sieve(graph, found);
    sieve.bind(find);
    // A pass could remove a node that is refused, since what reads its result may be gone.
    for (const auto& pass : passes()) options.without_passes.emplace_back(pass.name);
    TRY(rewrite(graph, profile.limits, options, find));
    sieve.check_values();
    TRY(Planner(std::move(graph), std::move(profile), std::move(preferences), registry, ledger)
            .run(options, nullptr, &found));
    return {};
  };
  if (auto status = plan(); !status) found.add(std::move(status).error());
  return found;
}

}  // namespace nibble
