#include "plan/stepper.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "plan/batches.hpp"
#include "plan/grid.hpp"
#include "plan/pieces.hpp"

namespace nibble {

/// Lowers a node for a call, with what was planned at load: it makes no pipeline and no buffer.
class Stepper::Call final : public Sink {
 public:
  Call(Stepper& stepper, std::uint32_t node)
      : stepper_(stepper), plan_(*stepper.plan_), node_(node), spare_(plan_.spare_dispatches()[node]) {
    step().dispatches.clear();
    step().faults.clear();
    step().choices.clear();
  }

  std::size_t choose(const Choice& choice, const Facts& facts) override {
    const bool is_forced =
        stepper_.forced_ == &choice && is_right(choice, stepper_.forced_variant_, facts, plan_.profile());
    const auto variant =
        is_forced ? stepper_.forced_variant_ : plan_.preferences().pick(choice, facts, plan_.profile());
    step().choices.push_back({&choice, variant, facts, step().dispatches.size()});
    return variant;
  }

  Status dispatch(const Kernel& kernel) override {
    if (kernel.threads == 0) return {};
    auto workgroup = workgroup_for(kernel, kernel.threads, plan_.profile());
    if (!workgroup) return named(workgroup.error());
    auto grid = grid_for(kernel.threads, *workgroup, plan_.profile().limits);
    if (!grid) return named(grid.error());
    TRY_ASSIGN(const auto pipeline, pipeline_of(kernel, *workgroup));
    auto& d = step().dispatches.emplace_back();
    d.node = node_;
    d.grid = grid->groups;
    d.pipeline = pipeline;
    d.work = work_of(kernel);
    for (const auto& b : kernel.bind) {
      const auto buffer = resolve(b.buffer);
      if (buffer == kNoBuffer) return unplanned("memory that a kernel binds");
      d.bindings[d.binding_count++] = buffer;
    }
    const auto params = kernel.params.bytes();
    d.params_bytes = static_cast<std::uint32_t>(params.size());
    std::ranges::copy(params, d.params.begin());
    if (d.work > plan_.layout().piece_work) [[unlikely]]
      cut(kernel.threads, *grid);
    return {};
  }

  Status reserve(std::uint64_t bytes) override {
    if (bytes > plan_.storage().scratch_bytes[node_]) return unplanned("working memory");
    return {};
  }

  void check_input(std::size_t, const IndexCheck&) override {}

  std::uint32_t add_fault_site(const FaultSite& site) override {
    step().faults.push_back(site);
    return static_cast<std::uint32_t>(step().faults.size() - 1);
  }

  void use_rows(ValueId state, std::size_t, std::int64_t rows) override { stepper_.state_rows_[state] = rows; }

 private:
  NodeStep& step() { return stepper_.nodes_[node_]; }

  /// Cuts the last dispatch into pieces: as many as its work wants, but no more than were planned.
  void cut(std::uint64_t threads, const Grid& grid) {
    auto& dispatches = step().dispatches;
    const std::size_t first = dispatches.size() - 1;
    const Pieces pieces(threads, grid, dispatches[first].work, plan_.layout().piece_work, 1 + spare_,
                        plan_.profile().limits);
    spare_ -= pieces.count() - 1;
    dispatches.resize(first + pieces.count(), dispatches[first]);
    for (std::uint32_t i = 0; i < pieces.count(); ++i) {
      const Piece piece = pieces[i];
      Dispatch& d = dispatches[first + i];
      d.grid = piece.grid;
      d.work = piece.work;
      std::memcpy(d.params.data(), &piece.first_group, sizeof(Params::FirstGroup));
    }
  }

  std::unexpected<Error> named(const Error& error) const {
    return fail(error.code, "{}: {}", plan_.graph().nodes[node_].name(), error.message);
  }
  std::unexpected<Error> unplanned(std::string_view what) const {
    return fail(ErrorCode::internal, "{}: {} was not planned", plan_.graph().nodes[node_].name(), what);
  }

  Result<PipelineId> pipeline_of(const Kernel& kernel, std::uint32_t workgroup) {
    auto& before = step().pipelines;
    const std::size_t i = kernels_++;
    if (i < before.size() && plan_.pipelines().matches(before[i], kernel, workgroup)) return before[i];
    const auto found = plan_.pipelines().find(kernel, workgroup);
    if (!found) return unplanned(fmt::format("the kernel {}", to_string(kernel)));
    before.resize(std::max(before.size(), i + 1));
    before[i] = *found;
    return *found;
  }

  BufferId resolve(const BufferRef& ref) const {
    const auto& storage = plan_.storage();
    switch (ref.kind) {
      case BufferRef::Kind::entry: return storage.entries[ref.entry].shards[ref.shard].buffer;
      case BufferRef::Kind::scratch: return storage.scratch[node_];
      case BufferRef::Kind::twin: return storage.twin[node_];
      case BufferRef::Kind::fault: return plan_.layout().fault_buffer;
    }
    return kNoBuffer;
  }

  Stepper& stepper_;
  const Plan& plan_;
  std::uint32_t node_;
  std::uint32_t spare_;      ///< dispatches that pieces may still take
  std::size_t kernels_ = 0;  ///< of this call, so far
};

Stepper::Stepper(std::shared_ptr<const Plan> plan)
    : plan_(std::move(plan)),
      live_(plan_->graph()),
      nodes_(plan_->graph().nodes.size()),
      state_rows_(plan_->graph().values.size()) {
  order_.reserve(plan_->layout().max_dispatches);
  params_.reserve(plan_->layout().max_dispatches * kParamsStride);
  batches_.reserve(plan_->layout().max_dispatches);
}

Result<std::vector<Dispatch>> Stepper::preparation(std::shared_ptr<const Plan> plan) {
  Stepper stepper(std::move(plan));
  std::vector<Dispatch> all;
  for (std::uint32_t n = 0; n < stepper.nodes_.size(); ++n) {
    if (stepper.plan_->storage().at_load[n] == 0) continue;
    TRY(stepper.lower(n));
    std::ranges::copy(stepper.nodes_[n].dispatches, std::back_inserter(all));
  }
  return all;
}

Status Stepper::set_shape(std::size_t input, const Shape& shape) {
  const ValueId v = plan_->graph().inputs[input];
  const auto* tensor = plan_->graph().tensor(v);
  // Callers are told by the boundary, before anything gets here.
  if (tensor == nullptr) return fail(ErrorCode::internal, "input {} of the graph is an integer", input);
  const Shape& bound = tensor->shape;
  bool fits = shape.rank() == bound.rank();
  for (std::size_t i = 0; fits && i < bound.rank(); ++i) {
    fits = shape[i] >= 0 && shape[i] <= bound[i] && (!tensor->fixed || shape[i] == bound[i]);
  }
  if (!fits) return fail(ErrorCode::internal, "input {} of the graph is set to {}, past {}", input, shape, bound);
  if (!(live_.shapes[v] == shape)) {
    live_.shapes[v] = shape;
    live_.changed[v] = 1;
  }
  return {};
}

Status Stepper::set_int(std::size_t input, std::int64_t value) {
  const ValueId v = plan_->graph().inputs[input];
  if (!std::holds_alternative<SymInt>(plan_->graph().values[v])) {
    return fail(ErrorCode::internal, "input {} of the graph is a tensor", input);
  }
  if (live_.ints[v] != value) {
    live_.ints[v] = value;
    live_.changed[v] = 1;
  }
  return {};
}

void Stepper::set_host_data(std::size_t input, std::span<const std::int32_t> elements) {
  live_.host_data[input] = elements;
}

Status Stepper::update() {
  // If this ends early, some nodes are of this call and some of the last: then all of them are lowered next time.
  const bool all = std::exchange(all_changed_, true) || plan_->rewrites();
  bool any = all;
  bool same_counts = !all;
  const auto operands = plan_->operands();
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    const bool reads_data = operands[n].reads_data;
    const bool depends =
        all || reads_data || std::ranges::any_of(operands[n].inputs, [&](ValueId v) { return live_.changed[v] != 0; });
    if (!depends) continue;
    const auto count = nodes_[n].dispatches.size();
    TRY(lower(n));
    same_counts = same_counts && nodes_[n].dispatches.size() == count;
    if (same_counts) write_params(nodes_[n]);
    any = any || !reads_data;
  }
  std::ranges::fill(live_.changed, std::uint8_t{0});
  if (any && !same_counts) TRY(arrange());
  all_changed_ = false;
  if (any) {
    cut_batches(order_, plan_->layout().batch_work, batches_);
    ++version_;
  }
  return {};
}

Status Stepper::arrange() {
  order_.clear();
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    nodes_[n].first = order_.size();
    if (plan_->storage().at_load[n] != 0) nodes_[n].dispatches.clear();
    for (const auto& d : nodes_[n].dispatches) order_.push_back(&d);
  }
  if (order_.size() > plan_->layout().max_dispatches) {
    return fail(ErrorCode::internal, "a call needs {} dispatches, but {} were planned", order_.size(),
                plan_->layout().max_dispatches);
  }
  params_.resize(order_.size() * kParamsStride);
  for (const auto& node : nodes_) write_params(node);
  return {};
}

void Stepper::write_params(const NodeStep& step) {
  auto* to = params_.data() + step.first * kParamsStride;
  for (const auto& d : step.dispatches) {
    std::memcpy(to, d.params.data(), d.params_bytes);
    to += kParamsStride;
  }
}

Status Stepper::lower(std::uint32_t node) {
  Call call(*this, node);
  const Planned planned = plan_->planned();
  return Lowering(planned, live_, node, call).run();
}

void Stepper::force(const Choice* choice, std::size_t variant) {
  forced_ = choice;
  forced_variant_ = variant;
  all_changed_ = true;
}

std::uint64_t Stepper::work(std::uint32_t node, std::size_t first, std::size_t end) const {
  Size sum = 0;
  const std::span dispatches(nodes_[node].dispatches);
  for (const auto& dispatch : dispatches.first(std::min(end, dispatches.size())).subspan(first)) {
    sum = sum + dispatch.work;
  }
  return sum.valid() ? sum.unchecked() : std::numeric_limits<std::uint64_t>::max();
}

Shape Stepper::input_shape(std::size_t input) const { return live_.shapes[plan_->graph().inputs[input]]; }
Shape Stepper::output_shape(std::size_t output) const { return live_.shapes[plan_->graph().outputs[output]]; }
std::int64_t Stepper::output_int(std::size_t output) const { return live_.ints[plan_->graph().outputs[output]]; }

std::int64_t Stepper::state_rows(std::size_t state) const {
  const auto& desc = plan_->layout().states[state];
  return desc.row_axis < 0 ? 0 : state_rows_[desc.value];
}

namespace {

Error bad_index(std::string_view op, std::string_view arg, const Shape& shape, std::uint64_t position,
                std::int64_t value, std::int64_t rows) {
  Shape at = shape;
  for (std::size_t i = shape.rank(); i-- > 0;) {
    const auto size = static_cast<std::uint64_t>(std::max<std::int64_t>(1, shape[i]));
    at[i] = static_cast<std::int64_t>(position % size);
    position /= size;
  }
  return {ErrorCode::out_of_range, fmt::format("{}: {}{} is {}, but the table has {} rows", op, arg,
                                               shape.rank() == 0 ? "" : to_string(at), value, rows)};
}

}  // namespace

Error Stepper::describe_fault(std::span<const std::uint32_t, kFaultWords> words) const {
  const std::uint32_t node = words[0] - 1;
  if (node >= nodes_.size() || words[3] >= nodes_[node].faults.size())
    return {ErrorCode::internal, fmt::format("a kernel reported an unknown fault ({}, {})", words[0], words[3])};
  const auto& site = nodes_[node].faults[words[3]];
  return bad_index(plan_->graph().nodes[node].name(), site.arg, live_.shapes[site.indices], words[1],
                   std::bit_cast<std::int32_t>(words[2]), site.rows);
}

Error Stepper::describe_index(const IndexCheck& check, std::size_t input, std::uint64_t position,
                              std::int64_t value) const {
  return bad_index(plan_->graph().nodes[check.node].name(), check.arg, live_.shapes[plan_->graph().inputs[input]],
                   position, value, check.rows);
}

}  // namespace nibble
