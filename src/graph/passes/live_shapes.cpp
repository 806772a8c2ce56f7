#include "graph/passes/live_shapes.hpp"

#include <algorithm>

namespace nibble {
namespace {

/// Sizes and moves of a filter that are counted here; others are errors, or nearly.
constexpr std::int64_t kMost = 1 << 30;

/// Item i of a list of integers, or its only one.
std::optional<std::int64_t> item(const Graph& graph, ValueId list, std::size_t i) {
  const auto* ints = std::get_if<IntList>(&graph.values[list]);
  if (ints == nullptr || ints->empty()) return {};
  const auto value = (*ints)[ints->size() == 1 ? 0 : std::min(i, ints->size() - 1)];
  return value >= 0 && value <= kMost ? std::optional(value) : std::nullopt;
}

}  // namespace

LiveShapes::LiveShapes(const Graph& graph) : graph_(graph), sizes_(graph.values.size()) {
  for (ValueId v = 0; v < sizes_.size(); ++v) {
    const auto* t = graph.tensor(v);
    if (t == nullptr) continue;
    sizes_[v] = t->constant >= 0 || t->fixed ? Sizes(t->shape.begin(), t->shape.end()) : unknown(t->shape.rank());
  }
  std::vector<bool> is_written(sizes_.size());
  for (auto v : graph.inputs) is_written[v] = true;
  for (const auto& node : graph.nodes) {
    const auto* out = graph.tensor(node.out());
    if (out == nullptr || out->constant >= 0) continue;
    // What is written again has different sizes at different times.
    sizes_[node.out()] = is_written[node.out()] ? unknown(out->shape.rank()) : result_of(node, *out);
    is_written[node.out()] = true;
  }
}

bool LiveShapes::is_known(ValueId v) const {
  if (std::holds_alternative<SymInt>(graph_.values[v])) return false;
  return std::ranges::all_of(sizes_[v], [](std::int64_t size) { return size >= 0; });
}

LiveShapes::Sizes LiveShapes::unknown(std::size_t rank) {
  Sizes sizes(rank);
  for (auto& size : sizes) size = next_--;
  return sizes;
}

LiveShapes::Sizes LiveShapes::result_of(const Node& node, const TensorValue& out) {
  bool all_known = !node.signature->has(Role::host);
  for_each_operand(graph_, node, [&](ValueId v, const Arg& arg) {
    if (!is_output(arg.role)) all_known = all_known && is_known(v);
  });
  if (all_known) return {out.shape.begin(), out.shape.end()};
  if (node.signature->joins == Joins::as_one) return broadcast(node, out);
  if (node.signature->find("stride")) return convolved(node, out).value_or(unknown(out.shape.rank()));
  Sizes sizes = unknown(out.shape.rank());
  // A product with a constant keeps all sizes but the last.
  const auto weight = node.signature->find(Role::table);
  const auto x = node.signature->find(Role::tensor);
  if (node.signature->joins == Joins::steps && weight && x && is_known(node.args[*weight])) {
    const Sizes& rows = sizes_[node.args[*x]];
    if (rows.size() != sizes.size() || sizes.empty()) return sizes;
    std::copy(rows.begin(), rows.end() - 1, sizes.begin());
    sizes.back() = out.shape[out.shape.rank() - 1];
  }
  return sizes;
}

LiveShapes::Sizes LiveShapes::broadcast(const Node& node, const TensorValue& out) {
  const auto rank = out.shape.rank();
  Sizes sizes(rank, 1);
  for_each_operand(graph_, node, [&](ValueId v, const Arg& arg) {
    if (is_output(arg.role) || graph_.tensor(v) == nullptr || sizes_[v].size() > rank) return;
    for (std::size_t i = 0; i < sizes_[v].size(); ++i) {
      auto& size = sizes[i + rank - sizes_[v].size()];
      const auto other = sizes_[v][i];
      // One that is known, and not 1, is the result's; of two that are not known either may be 1.
      if (size == 1 || other > 1) {
        size = other;
      } else if (other != 1 && other != size && size < 0) {
        size = next_--;
      }
    }
  });
  return sizes;
}

std::optional<LiveShapes::Sizes> LiveShapes::convolved(const Node& node, const TensorValue& out) {
  const auto& signature = *node.signature;
  const auto kernel = signature.find("kernel_size");
  const auto input = signature.find("input") ? signature.find("input") : signature.find("x");
  const auto weight = signature.find("weight") ? signature.find("weight") : signature.find("weights");
  const auto transposed = signature.find("transposed");
  if (!input || !weight || !signature.find("dilation") ||
      signature.find("output_padding").has_value() != transposed.has_value()) {
    return {};
  }
  if (transposed && whole_number(graph_.values[node.args[*transposed]]) != 0) return {};
  const auto* filter = graph_.tensor(node.args[*weight]);
  Sizes& from = sizes_[node.args[*input]];
  if (filter == nullptr || !is_known(node.args[*weight]) || from.size() != out.shape.rank() || from.size() < 3)
    return {};
  // Another number of channels is an error.
  from[1] = graph_.tensor(node.args[*input])->shape[1];
  Sizes sizes{from[0], out.shape[1]};
  for (std::size_t i = 2; i < from.size(); ++i) {
    const auto taps = kernel                                ? item(graph_, node.args[*kernel], i - 2)
                      : filter->shape.rank() == from.size() ? std::optional(filter->shape[i])
                                                            : std::nullopt;
    const auto stride = item(graph_, node["stride"], i - 2);
    const auto padding = item(graph_, node["padding"], i - 2);
    const auto dilation = item(graph_, node["dilation"], i - 2);
    if (!taps || !stride || !padding || !dilation || *taps > kMost) return {};
    const auto more = 2 * *padding - *dilation * (*taps - 1);
    if (*stride == 1 && more == 0) {
      sizes.push_back(from[i]);
      continue;
    }
    const auto [found, is_new] = strided_.try_emplace({from[i], *stride, more}, next_);
    if (is_new) --next_;
    sizes.push_back(found->second);
  }
  return sizes;
}

}  // namespace nibble
