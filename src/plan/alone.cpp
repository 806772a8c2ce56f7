#include "plan/alone.hpp"

#include <algorithm>

#include "plan/batches.hpp"

namespace nibble {
namespace {

/// The nodes that compute something at load for `node`, and the node itself, in their order.
std::vector<Node> with_preparation(const Plan& plan, std::uint32_t node, std::vector<bool>& is_made) {
  std::vector<bool> is_wanted(plan.graph().values.size());
  std::vector<Node> nodes;
  const auto take = [&](std::uint32_t n) {
    for (auto v : plan.operands()[n].inputs) is_wanted[v] = true;
    nodes.push_back(plan.graph().nodes[n]);
  };
  take(node);
  for (std::uint32_t n = node; n-- > 0;) {
    const auto& made = plan.operands()[n].outputs;
    if (plan.storage().at_load[n] == 0 || std::ranges::none_of(made, [&](ValueId v) { return is_wanted[v]; })) continue;
    take(n);
    for (auto v : made) is_made[v] = true;
  }
  std::ranges::reverse(nodes);
  return nodes;
}

DType outside(DType dtype) { return is_float(dtype) ? DType::f32 : dtype; }

struct Describe {
  const Plan& plan;
  const LiveValues& live;
  std::string& to;

  void value(ValueId v) const {
    std::visit([&](const auto& one) { (*this)(v, one); }, plan.graph().values[v]);
    to += ' ';
  }

  void operator()(ValueId, const Null&) const { to += '-'; }
  void operator()(ValueId v, const SymInt&) const { add(live.ints[v]); }
  void operator()(ValueId, std::int64_t number) const { add(number); }
  void operator()(ValueId, double number) const { add(number); }
  void operator()(ValueId, bool flag) const { add(flag); }
  void operator()(ValueId, const std::string& text) const { add(text); }
  void operator()(ValueId, const ValueList& list) const {
    for (auto item : list.items) value(item);
  }
  void operator()(ValueId v, const TensorValue& tensor) const {
    const bool is_fixed = plan.planned().fixed[v] != 0;
    fmt::format_to(std::back_inserter(to), "{}{}{}{}{}", tensor.dtype, tensor.shape, live.shapes[v],
                   tensor.constant >= 0 ? "c" : "", is_fixed ? "f" : "");
  }
  template <class T>
  void operator()(ValueId, const std::vector<T>& list) const {
    for (const T one : list) add(one);
  }
  template <class T>
  void add(const T& one) const {
    fmt::format_to(std::back_inserter(to), "{},", one);
  }
};

}  // namespace

Graph node_alone(const Plan& plan, std::uint32_t node) {
  Graph alone;
  alone.values = plan.graph().values;
  alone.constants = plan.graph().constants;
  std::vector<bool> is_made(alone.values.size());
  alone.nodes = with_preparation(plan, node, is_made);
  std::vector<bool> is_known(alone.values.size());
  const auto& [inputs, outputs, reads_data] = plan.operands()[node];
  for (auto v : inputs) {
    const auto entry = plan.storage().entry_of[v];
    const bool is_state = entry != Storage::kNone && plan.storage().entries[entry].role == BufferRole::state;
    const bool is_changed = std::ranges::find(outputs, v) != outputs.end();
    auto* tensor = alone.tensor(v);
    // A state that it changes stays one, which is set back.
    const bool is_constant = tensor != nullptr && tensor->constant >= 0 && (!is_state || is_changed);
    if (is_made[v] || is_known[v] || is_constant) continue;
    is_known[v] = true;
    alone.inputs.push_back(v);
    if (tensor == nullptr) continue;
    // A cache that another node fills has no bytes that would be like those of a call.
    tensor->constant = -1;
    tensor->fixed = plan.planned().fixed[v] != 0;
    tensor->staging = outside(tensor->dtype);
  }
  // What it changes in place may be an input as well.
  for (auto v : outputs) {
    if (std::ranges::find(alone.outputs, v) != alone.outputs.end()) continue;
    alone.outputs.push_back(v);
    if (auto* tensor = alone.tensor(v)) tensor->staging = outside(tensor->dtype);
  }
  return alone;
}

Result<std::shared_ptr<const Plan>> plan_alone(const Plan& plan, std::uint32_t node, Options options,
                                               Registry registry) {
  constexpr std::uint64_t kShorter = 8;
  if (options.max_batch_work == 0) options.max_batch_work = default_batch_work(plan.profile());
  options.max_batch_work = std::max<std::uint64_t>(1, options.max_batch_work / kShorter);
  return Plan::lower(node_alone(plan, node), plan.profile(), plan.preferences().with_all(), options, registry);
}

std::string likeness(const Plan& plan, std::uint32_t node, const LiveValues& live) {
  std::string text;
  const Node& whole = plan.graph().nodes[node];
  const auto add = [&](const Node& one) {
    text += one.op + ' ';
    for (auto v : one.args) {
      if (!whole.keeps(v)) Describe{plan, live, text}.value(v);
    }
  };
  add(whole);
  std::ranges::for_each(whole.tail, add);
  return text;
}

}  // namespace nibble
