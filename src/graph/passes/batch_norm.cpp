// A batch norm after a convolution is another convolution: its filters are scaled by channel, and its bias is moved and
// scaled. Nodes of their own do that, on constants, so they run once, at load.
#include <algorithm>

#include "graph/passes/rewrite.hpp"

namespace nibble {
namespace {

constexpr std::string_view kArranged = "nibble.convolution";
constexpr std::string_view kClamped = "et_vk.conv_with_clamp.default";

/// The convolution whose result only this norm reads, if norm and convolution can be one.
std::optional<std::size_t> convolution_of(const Rewriter& rewriter, const Node& norm) {
  const Graph& graph = rewriter.graph();
  const auto n = rewriter.producer(norm["input"]);
  const auto* outs = std::get_if<ValueList>(&graph.values[norm["out"]]);
  if (!n || rewriter.uses(norm["input"]) != 1 || outs == nullptr || outs->items.empty()) return {};
  const bool is_only_result = std::ranges::all_of(outs->items, [&](ValueId v) {
    return v == outs->items.front() ? rewriter.producer(v).has_value() : rewriter.uses(v) == 0;
  });
  const Node& node = rewriter.node(*n);
  const auto* out = graph.tensor(outs->items.front());
  const bool is_plain = node.op == "aten.convolution.default";
  if (!is_only_result || out == nullptr || (!is_plain && node.op != kArranged && node.op != kClamped)) return {};
  if (!is_plain && !(rewriter.is_null(node["output_min"]) && rewriter.is_null(node["output_max"]))) return {};
  const auto* made = graph.tensor(norm["input"]);
  if (made == nullptr || made->dtype != out->dtype || !(made->shape == out->shape) || made->shape.rank() < 3) return {};
  // A transposed filter has its channels in groups.
  const auto groups = whole_number(graph.values[node["groups"]]);
  if (whole_number(graph.values[node["transposed"]]) != 0 && groups != 1) return {};
  const auto is_row = [&](ValueId v, bool may_miss) {
    if (rewriter.is_null(v)) return may_miss;
    return rewriter.is_constant(v) && graph.tensor(v)->shape == Shape{made->shape[1]};
  };
  if (std::holds_alternative<SymInt>(graph.values[norm["eps"]])) return {};
  const bool all_constant = is_row(node["bias"], true) && is_row(norm["weight"], true) && is_row(norm["bias"], true) &&
                            is_row(norm["running_mean"], false) && is_row(norm["running_var"], false);
  return all_constant ? n : std::nullopt;
}

}  // namespace

void batch_norm(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  for (std::size_t n = 0; n < rewriter.size(); ++n) {
    const Node norm = rewriter.node(n);
    if (norm.op != "aten._native_batch_norm_legit_no_training.default") continue;
    const auto found = convolution_of(rewriter, norm);
    if (!found) continue;
    Node node = rewriter.node(*found);
    const auto arrange = node.op == kArranged ? rewriter.producer(node["weight"], "nibble.filter") : std::nullopt;
    const ValueId weight = arrange ? rewriter.node(*arrange)["weight"] : node["weight"];
    if (!rewriter.is_constant(weight)) continue;
    const auto& shape = graph.tensor(weight)->shape;
    if (shape.rank() < 3 || shape.numel() == 0) continue;

    const auto name = std::string(node.name());
    const auto fold = [&](ValueId source, const TensorValue& like, bool is_filter) {
      const ValueId out = rewriter.add(TensorValue{.dtype = like.dtype, .staging = like.dtype, .shape = like.shape});
      const ValueId none = rewriter.add(Null{});
      rewriter.insert_after(*found, rewriter.make("nibble.fold_norm",
                                                  {{"source", source},
                                                   {"weight", norm["weight"]},
                                                   {"bias", is_filter ? none : norm["bias"]},
                                                   {"running_mean", is_filter ? none : norm["running_mean"]},
                                                   {"running_var", norm["running_var"]},
                                                   {"eps", norm["eps"]},
                                                   {"transposed", node["transposed"]},
                                                   {"out", out}},
                                                  std::string(norm.name())));
      return out;
    };
    ValueId bias = node["bias"];
    const TensorValue row{.shape = Shape{graph.tensor(norm["input"])->shape[1]}};
    if (rewriter.is_null(bias)) {
      bias = rewriter.add(row);
      rewriter.insert_after(*found,
                            rewriter.make("aten.zeros_like.default", {{"self", norm["running_var"]}, {"out", bias}}));
    }
    node.set("bias", fold(bias, row, false));
    ValueId scaled = fold(weight, TensorValue(*graph.tensor(weight)), true);
    if (arrange) {
      Node filter = rewriter.node(*arrange);
      const TensorValue arranged = *graph.tensor(filter["out"]);
      filter.set("weight", std::exchange(scaled, rewriter.add(arranged)));
      filter.set("out", scaled);
      rewriter.insert_after(*found, std::move(filter));
      if (rewriter.uses(node["weight"]) == 1) rewriter.remove(*arrange);
    }
    node.set("weight", scaled);
    node.set("out", std::get_if<ValueList>(&graph.values[norm["out"]])->items.front());
    node.origin = name;
    rewriter.insert_after(*found, std::move(node));
    rewriter.remove(*found);
    rewriter.remove(n);
  }
  rewriter.finish();
}

}  // namespace nibble
