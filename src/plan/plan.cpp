#include "plan/plan.hpp"

#include <algorithm>
#include <unordered_set>

#include "graph/passes/passes.hpp"
#include "plan/op_context.hpp"
#include "plan/tuning.hpp"

namespace nibble {

/// The steps of Plan::make, in order.
class PlanMaker {
 public:
  PlanMaker(Graph graph, DeviceProfile profile, const Options& options, Registry registry)
      : options_(options), registry_(registry) {
    plan_->graph_ = std::move(graph);
    plan_->profile_ = std::move(profile);
  }

  Result<std::shared_ptr<const Plan>> run() {
    TRY(check_variants(options_));
    TRY(fold_prepack(plan_->graph_));
    TRY(check_names());
    TRY(rewrite());
    find_ops();
    TRY(check_values());
    auto& p = *plan_;
    TRY_ASSIGN(p.storage_,
               analyze_storage(p.graph_, p.ops_, p.node_inputs_, p.node_outputs_, p.profile_.limits, options_));
    TRY(lower_at_bounds());
    TRY(assign_buffers(p.graph_, p.node_outputs_, p.profile_.limits, p.storage_, p.layout_));
    lay_out_inputs();
    TRY(lay_out_outputs());
    TRY(lower_at_bounds());
    lower_at_smallest();
    finish_layout();
    return std::shared_ptr<const Plan>(plan_);
  }

 private:
  const OpEntry* find(std::string_view op) const {
    const auto found = std::ranges::find(registry_, op, &OpEntry::name);
    return found != registry_.end() ? &*found : nullptr;
  }

  Status check_names() const {
    std::vector<std::string_view> missing;
    std::unordered_set<std::string_view> known;
    for (const auto& node : plan_->graph_.nodes) {
      if (known.insert(node.op).second && find(node.op) == nullptr) missing.push_back(node.op);
    }
    if (!missing.empty()) {
      return fail(ErrorCode::unsupported, "the program uses {} that Nibble does not have: {}",
                  missing.size() == 1 ? "an operator" : "operators", fmt::join(missing, ", "));
    }
    return {};
  }

  Status rewrite() {
    const auto largest = largest_buffer(plan_->profile_.limits);
    const PassContext context{[this](std::string_view op) {
                                const auto* entry = find(op);
                                return entry != nullptr ? entry->traits.mutates : 0;
                              },
                              options_.max_shard_bytes != 0 ? std::min(largest, options_.max_shard_bytes) : largest};
    split_norms(plan_->graph_, context);
    TRY(run_passes(plan_->graph_, context, options_.without_passes));
    if (options_.f16_cache) f16_caches(plan_->graph_);
    return {};
  }

  void find_ops() {
    for (const auto& node : plan_->graph_.nodes) plan_->ops_.push_back(find(node.op));
    for (std::size_t n = 0; n < plan_->graph_.nodes.size(); ++n) {
      collect_operands(plan_->graph_, plan_->graph_.nodes[n], plan_->ops_[n]->traits,
                       plan_->node_inputs_.emplace_back(), plan_->node_outputs_.emplace_back());
    }
  }

  // Every tensor that is read was written before, by the caller, the file or a node; no 64-bit element reaches the GPU.
  Status check_values() {
    const Graph& g = plan_->graph_;
    std::vector<bool> has_value(g.values.size());
    for (auto v : g.inputs) has_value[v] = true;
    for (ValueId v = 0; v < g.values.size(); ++v) {
      if (const auto* t = g.tensor(v); t != nullptr && t->constant >= 0) has_value[v] = true;
    }
    const auto check = [&](ValueId v, std::string_view reader) -> Status {
      if (!has_value[v])
        return fail(ErrorCode::invalid_program, "{} reads value {} before anything wrote it", reader, v);
      if (const auto* t = g.tensor(v); t != nullptr && size_of(t->dtype) == 8) {
        return fail(ErrorCode::unsupported,
                    "{} reads a {} tensor, but GPUs have no 64-bit elements: export with downcast_64_bit", reader,
                    t->dtype);
      }
      return {};
    };
    for (std::size_t n = 0; n < g.nodes.size(); ++n) {
      for (auto v : plan_->node_inputs_[n]) TRY(check(v, g.nodes[n].name()));
      for (auto v : plan_->node_outputs_[n]) has_value[v] = true;
      for (auto v : plan_->node_outputs_[n]) TRY(check(v, g.nodes[n].name()));
    }
    for (auto v : g.outputs) TRY(check(v, "the output list"));
    return {};
  }

  // SymInts that come from the caller's data are not known yet: a node that depends on them, or on a shape that they
  // make, may fail now and still be right later, when it is lowered again. What this device cannot do is told now.
  Status lower_at_bounds() {
    Stepper stepper(plan_);
    stepper.pipelines_ = plan_->pipelines_;
    std::vector<bool> unknown(plan_->graph_.values.size());
    for (auto v : plan_->graph_.inputs) unknown[v] = std::holds_alternative<SymInt>(plan_->graph_.values[v]);
    dispatches_.resize(plan_->graph_.nodes.size());
    checks_.clear();
    for (std::uint32_t n = 0; n < plan_->graph_.nodes.size(); ++n) {
      const bool is_unknown = std::ranges::any_of(plan_->node_inputs_[n], [&](ValueId v) { return unknown[v]; });
      OpContext::Measure measure;
      OpContext op(stepper, n, &measure);
      Status status = plan_->ops_[n]->lower(op);
      if (status) status = op.finish();
      if (!status && (!is_unknown || status.error().code == ErrorCode::unsupported)) return status;
      if (is_unknown || plan_->ops_[n]->traits.reads_data) {
        for (auto v : plan_->node_outputs_[n]) {
          if (const auto* t = plan_->graph_.tensor(v)) {
            unknown[v] = !status || !(stepper.shapes_[v] == t->shape);
            stepper.shapes_[v] = t->shape;
          } else {
            unknown[v] = true;
          }
        }
      }
      plan_->storage_.scratch_bytes[n] = std::max(plan_->storage_.scratch_bytes[n], measure.scratch_bytes);
      // What a node that failed would emit is not known either; a few blocks of parameters too many cost nothing.
      const auto guess = kUnknownDispatches + static_cast<std::uint32_t>(plan_->node_inputs_[n].size());
      dispatches_[n] = std::max({dispatches_[n], measure.dispatches, status ? 0 : guess});
      for (const auto& [input, check] : measure.checks) checks_.emplace_back(input, check);
    }
    plan_->pipelines_ = stepper.pipelines_;
    return {};
  }

  // Only to learn which pipelines small calls need: a program whose shapes are fixed may refuse, and that is fine.
  void lower_at_smallest() {
    Stepper stepper(plan_);
    stepper.pipelines_ = plan_->pipelines_;
    for (auto v : plan_->graph_.inputs) {
      if (plan_->graph_.tensor(v) == nullptr) continue;
      Shape smallest;
      for (auto d : stepper.shapes_[v]) smallest.push_back(std::min<std::int64_t>(d, 1));
      stepper.shapes_[v] = smallest;
    }
    (void)stepper.update();
    plan_->pipelines_ = stepper.pipelines_;
  }

  void lay_out_inputs() {
    const Graph& g = plan_->graph_;
    for (auto v : g.inputs) {
      InputDesc in;
      in.value = v;
      if (const auto* t = g.tensor(v)) {
        in.dtype = t->dtype;
        in.staging = t->staging;
        in.bound = t->shape;
        in.used = plan_->storage_.entry_of[v] != Storage::kNone;
        if (in.used) in.buffer = plan_->storage_.entries[plan_->storage_.entry_of[v]].shards.front().buffer;
      } else {
        in.is_symint = true;
      }
      plan_->layout_.inputs.push_back(std::move(in));
    }
    for (std::size_t n = 0; n < g.nodes.size(); ++n) {
      if (!plan_->ops_[n]->traits.reads_data) continue;
      for (auto v : plan_->node_inputs_[n]) {
        if (plan_->storage_.entry_of[v] == Storage::kNone) continue;
        const auto input = plan_->storage_.entries[plan_->storage_.entry_of[v]].input;
        if (input >= 0 && plan_->layout_.inputs[input].dtype == DType::i32)
          plan_->layout_.inputs[input].host_read = true;
      }
    }
  }

  Status lay_out_outputs() {
    const Graph& g = plan_->graph_;
    Size staging = 0;
    for (auto v : g.outputs) {
      OutputDesc out;
      out.value = v;
      if (const auto* t = g.tensor(v)) {
        out.dtype = t->dtype;
        out.staging = t->staging;
        out.bound = t->shape;
        const auto& entry = plan_->storage_.entries[plan_->storage_.entry_of[v]];
        if (entry.shards.size() > 1) {
          return fail(ErrorCode::unsupported,
                      "an output of shape {} ({}) takes {} bytes, more than one buffer on this device holds", t->shape,
                      t->dtype, entry.bytes);
        }
        out.buffer = entry.shards.front().buffer;
        staging = staging + Size(entry.bytes).align_up(16);
      } else {
        out.is_symint = true;
      }
      plan_->layout_.outputs.push_back(out);
    }
    const Size all = staging + kFaultWords * 4;
    if (!all.fits(plan_->profile_.limits.max_buffer_size)) {
      return fail(ErrorCode::unsupported,
                  "all outputs together take {} bytes, but a buffer on this device holds at most {}",
                  staging.unchecked(), plan_->profile_.limits.max_buffer_size);
    }
    plan_->layout_.staging_bytes = all.unchecked();
    plan_->layout_.fault_buffer = static_cast<BufferId>(plan_->layout_.buffers.size());
    plan_->layout_.buffers.push_back({kFaultWords * 4, BufferRole::fault});
    return {};
  }

  void finish_layout() {
    Layout& layout = plan_->layout_;
    for (const auto& [input, check] : checks_) layout.inputs[input].checks.push_back(check);
    for (auto count : dispatches_) layout.max_dispatches += count;
    layout.pipelines.assign(plan_->pipelines_.descs().begin(), plan_->pipelines_.descs().end());
    layout.can_fault = std::ranges::any_of(layout.pipelines, [](const PipelineDesc& p) { return p.reports_faults; });
  }

  static constexpr std::uint32_t kUnknownDispatches = 8;

  std::shared_ptr<Plan> plan_ = std::make_shared<Plan>();
  Options options_;
  Registry registry_;
  std::vector<std::uint32_t> dispatches_;  ///< per node, at most
  std::vector<std::pair<std::size_t, IndexCheck>> checks_;
};

Result<std::shared_ptr<const Plan>> Plan::make(Graph graph, DeviceProfile profile, const Options& options,
                                               Registry registry) {
  return PlanMaker(std::move(graph), std::move(profile), options, registry).run();
}

}  // namespace nibble
