#include "plan/stepper.hpp"

#include <algorithm>
#include <bit>

#include "plan/op_context.hpp"

namespace nibble {

Stepper::Stepper(std::shared_ptr<const Plan> plan)
    : plan_(std::move(plan)),
      pipelines_(plan_->pipelines_),
      shapes_(plan_->graph_.values.size()),
      ints_(plan_->graph_.values.size()),
      changed_(plan_->graph_.values.size()),
      nodes_(plan_->graph_.nodes.size()),
      host_data_(plan_->graph_.inputs.size()) {
  for (ValueId v = 0; v < shapes_.size(); ++v) {
    if (const auto* tensor = plan_->graph_.tensor(v)) shapes_[v] = tensor->shape;
  }
  order_.reserve(plan_->layout_.max_dispatches);
  params_.reserve(plan_->layout_.max_dispatches * kParamsStride);
}

Status Stepper::set_shape(std::size_t input, const Shape& shape) {
  const ValueId v = plan_->graph_.inputs[input];
  const auto* tensor = plan_->graph_.tensor(v);
  if (tensor == nullptr) return fail(ErrorCode::invalid_argument, "input {} is an integer, not a tensor", input);
  const Shape& bound = tensor->shape;
  bool fits = shape.rank() == bound.rank();
  for (std::size_t i = 0; fits && i < bound.rank(); ++i) fits = shape[i] >= 0 && shape[i] <= bound[i];
  // Callers are told by the boundary, before anything gets here.
  if (!fits) return fail(ErrorCode::internal, "input {} of the graph is set to {}, past {}", input, shape, bound);
  if (!(shapes_[v] == shape)) {
    shapes_[v] = shape;
    changed_[v] = 1;
  }
  return {};
}

Status Stepper::set_int(std::size_t input, std::int64_t value) {
  const ValueId v = plan_->graph_.inputs[input];
  if (!std::holds_alternative<SymInt>(plan_->graph_.values[v])) {
    return fail(ErrorCode::invalid_argument, "input {} is a tensor, not an integer", input);
  }
  if (ints_[v] != value) {
    ints_[v] = value;
    changed_[v] = 1;
  }
  return {};
}

void Stepper::set_host_data(std::size_t input, std::span<const std::int32_t> elements) { host_data_[input] = elements; }

Status Stepper::update() {
  bool any = all_changed_;
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    const bool reads_data = plan_->ops_[n]->traits.reads_data;
    const bool depends = all_changed_ || reads_data ||
                         std::ranges::any_of(plan_->node_inputs_[n], [&](ValueId v) { return changed_[v] != 0; });
    if (!depends) continue;
    if (auto status = lower(n); !status) {
      // Half of the nodes are of this call, half of the last: begin anew next time.
      all_changed_ = true;
      return status;
    }
    any = any || !reads_data;
  }
  std::ranges::fill(changed_, std::uint8_t{0});
  all_changed_ = false;
  if (!any) return {};

  order_.clear();
  for (const auto& node : nodes_) {
    for (const auto& d : node.dispatches) order_.push_back(&d);
  }
  if (order_.size() > plan_->layout_.max_dispatches) {
    all_changed_ = true;
    return fail(ErrorCode::internal, "a call needs {} dispatches, but {} were planned", order_.size(),
                plan_->layout_.max_dispatches);
  }
  params_.resize(order_.size() * kParamsStride);
  for (std::size_t i = 0; i < order_.size(); ++i) {
    std::memcpy(params_.data() + i * kParamsStride, order_[i]->params.data(), kParamsStride);
  }
  ++version_;
  return {};
}

Status Stepper::lower(std::uint32_t node) {
  nodes_[node].dispatches.clear();
  nodes_[node].faults.clear();
  OpContext op(*this, node, nullptr);
  TRY(plan_->ops_[node]->lower(op));
  return op.finish();
}

Shape Stepper::input_shape(std::size_t input) const { return shapes_[plan_->graph_.inputs[input]]; }
Shape Stepper::output_shape(std::size_t output) const { return shapes_[plan_->graph_.outputs[output]]; }
std::int64_t Stepper::output_int(std::size_t output) const { return ints_[plan_->graph_.outputs[output]]; }

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
  return bad_index(plan_->graph_.nodes[node].name(), site.arg, shapes_[site.indices], words[1],
                   std::bit_cast<std::int32_t>(words[2]), site.rows);
}

Error Stepper::describe_index(const IndexCheck& check, std::size_t input, std::uint64_t position,
                              std::int64_t value) const {
  return bad_index(plan_->graph_.nodes[check.node].name(), check.arg, shapes_[plan_->graph_.inputs[input]], position,
                   value, check.rows);
}

}  // namespace nibble
