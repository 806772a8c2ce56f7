// 4-bit weights with an offset per group (GGUF's Q4_1) come as a linear plus the product of x's sums over each group
// with the offsets. They become one linear, whose kernel has the sums at hand.
#include <algorithm>

#include "graph/passes/linears.hpp"
#include "graph/passes/live_shapes.hpp"

namespace nibble {
namespace {

constexpr std::string_view kView = "aten.view_copy.default";

/// What a value shows through views, which keep all elements and their order.
struct Shown {
  ValueId source = 0;
  bool is_alone = true;     ///< nobody else reads the source or what is between
  bool keeps_width = true;  ///< its last size is the same in every call, if that of the source is
};

std::int64_t width_of(const TensorValue& tensor) {
  return tensor.shape.rank() == 0 ? -1 : tensor.shape[tensor.shape.rank() - 1];
}

std::optional<std::int64_t> last_item(const Graph& graph, ValueId list) {
  if (const auto* ints = std::get_if<IntList>(&graph.values[list]); ints != nullptr && !ints->empty()) {
    return ints->back();
  }
  const auto* items = std::get_if<ValueList>(&graph.values[list]);
  if (items == nullptr || items->items.empty()) return {};
  return whole_number(graph.values[items->items.back()]);
}

class Fuser {
 public:
  Fuser(Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), rewriter_(graph, context), live_(graph), shown_(graph.values.size()) {
    for (ValueId v = 0; v < shown_.size(); ++v) shown_[v].source = v;
    for (const auto& node : graph.nodes) {
      const auto from = node.signature->mutates() ? std::nullopt : node.viewed();
      const auto* a = from ? graph.tensor(*from) : nullptr;
      const auto* b = graph.tensor(node.out());
      if (a == nullptr || b == nullptr || a->dtype != b->dtype || !rewriter_.producer(node.out())) continue;
      const bool keeps = node.op == kView ? last_item(graph, node["size"]) == width_of(*b)
                                          : shown_[*from].keeps_width && width_of(*a) == width_of(*b);
      shown_[node.out()] = {shown_[*from].source, shown_[*from].is_alone && has_one_reader(*from), keeps};
    }
  }

  void run() {
    for (std::size_t n = 0; n < rewriter_.size(); ++n) {
      const Node node = rewriter_.node(n);
      if (node.op == "aten.addmm.default" && rewriter_.is_number(node["alpha"], 1) &&
          rewriter_.is_number(node["beta"], 1)) {
        fuse(n, node["self"], node["out"], node["mat1"], node["mat2"]);
      }
      if (node.op != "aten.add.Tensor" || !rewriter_.is_number(node["alpha"], 1)) continue;
      for (const auto& [a, b] : {std::pair(node["self"], node["other"]), {node["other"], node["self"]}}) {
        const auto made = rewriter_.producer(shown_[b].source);
        if (!made || !has_one_reader(b) || !shown_[b].is_alone) continue;
        const Node& product = rewriter_.node(*made);
        if (product.op != "aten.mm.default" && product.op != "aten.bmm.default") continue;
        if (fuse(n, a, b, product["self"], product["mat2"])) break;
      }
    }
    rewriter_.finish();
  }

 private:
  bool has_one_reader(ValueId v) const { return rewriter_.uses(v) == 1 && !rewriter_.is_output(v); }

  bool has_width(ValueId v, std::int64_t width) const {
    return shown_[v].keeps_width && width_of(*graph_.tensor(v)) == width;
  }

  /// Whether two values with the same elements and `width` have the same shape in every call.
  bool same_shape(ValueId a, ValueId b, std::int64_t width) const {
    const Shape& shape = graph_.tensor(a)->shape;
    if (!(shape == graph_.tensor(b)->shape) || !has_width(a, width) || !has_width(b, width)) return false;
    // One size of the rows follows from the number of elements.
    const auto others = std::count_if(shape.begin(), shape.end() - 1, [](std::int64_t size) { return size != 1; });
    return others <= 1 || live_.same(a, b);
  }

  /// Whether these are the sums of x over each group.
  bool are_sums(ValueId sums, ValueId x, std::int64_t group) const {
    const auto made = rewriter_.producer(shown_[sums].source, "aten.sum.dim_IntList");
    if (!made) return false;
    const Node& sum = rewriter_.node(*made);
    const auto* summed = graph_.tensor(sum["self"]);
    const auto* dims = std::get_if<IntList>(&graph_.values[sum["dim"]]);
    if (summed == nullptr || dims == nullptr || dims->size() != 1) return false;
    if (dims->front() != -1 && dims->front() + 1 != static_cast<std::int64_t>(summed->shape.rank())) return false;
    const ValueId source = shown_[x].source;
    if (shown_[sum["self"]].source != source || !rewriter_.is_steady(source)) return false;
    // The linear refuses another width of x, but not of what x shows.
    return has_width(sum["self"], group) && (source == x || rewriter_.producer(sum["self"], kView));
  }

  /// Makes one linear of node n, which adds the linear behind `a` and `b`, the product of sums and offsets.
  bool fuse(std::size_t n, ValueId a, ValueId b, ValueId sums, ValueId offsets) {
    const auto found = rewriter_.producer(shown_[a].source, kLinear);
    if (!found || !has_one_reader(a) || !shown_[a].is_alone || graph_.tensor(a) == nullptr) return false;
    const Node linear = rewriter_.node(*found);
    const ValueId out = rewriter_.node(n)["out"];
    const auto group = whole_number(graph_.values[linear["group_size"]]);
    const auto* x = graph_.tensor(linear["self"]);
    const auto* weight = graph_.tensor(linear["weights"]);
    const auto* sum = graph_.tensor(out);
    if (!group || *group <= 0 || x == nullptr || sum == nullptr || graph_.tensor(b) == nullptr ||
        !rewriter_.is_constant(linear["weights"]) || weight->shape.rank() != 2 || !rewriter_.producer(out) ||
        sum->dtype != graph_.tensor(a)->dtype) {
      return false;
    }
    const std::int64_t columns = weight->shape[0];
    const Shape scales{width_of(*x) / *group, columns};
    if (!same_shape(a, b, columns) || !(graph_.tensor(a)->shape == sum->shape) ||
        !are_sums(sums, linear["self"], *group) || !can_join(linear["weight_scales"], offsets, scales)) {
      return false;
    }
    const std::array both = {linear["weight_scales"], offsets};
    const auto dtype = graph_.tensor(offsets)->dtype;
    const bool is_viewed = a != linear["out"];
    if (is_viewed) {
      const auto view = *rewriter_.producer(a);
      Node last = rewriter_.node(view);
      last.set("out", out);
      rewriter_.replace(view, std::move(last));
    }
    rewriter_.replace(
        *found, rewriter_.make(kOffsetLinear, {{"self", linear["self"]},
                                               {"weights", linear["weights"]},
                                               {"weight_scales", rewriter_.join(both, dtype, {2 * scales[0], columns})},
                                               {"group_size", linear["group_size"]},
                                               {"bias", linear["bias"]},
                                               {"out", is_viewed ? linear["out"] : out}}));
    rewriter_.remove(n);
    return true;
  }

  bool can_join(ValueId scales, ValueId offsets, const Shape& shape) const {
    if (!rewriter_.is_private_constant(scales) || !rewriter_.is_private_constant(offsets)) return false;
    const auto& a = *graph_.tensor(scales);
    const auto& b = *graph_.tensor(offsets);
    if (!(a.shape == shape) || b.shape.numel() != shape.numel() || width_of(b) != shape[1]) return false;
    const auto bytes = graph_.constants[a.constant].length;
    return a.dtype == b.dtype && bytes % 4 == 0 && 2 * bytes <= context_.max_constant_bytes;
  }

  Graph& graph_;
  const PassContext& context_;
  Rewriter rewriter_;
  LiveShapes live_;
  std::vector<Shown> shown_;
};

}  // namespace

void offset_linears(Graph& graph, const PassContext& context) { Fuser(graph, context).run(); }

}  // namespace nibble
