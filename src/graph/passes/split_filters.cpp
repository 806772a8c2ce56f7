// Convolutions read their weights with the channels of a tap together. A weight that lies otherwise is rearranged by a
// node of its own: once, at load, if the weight is a constant.
#include "graph/passes/rewrite.hpp"

namespace nibble {
namespace {

constexpr std::string_view kFiltered = "nibble.convolution";

/// What is rearranged to what. Nothing if the weight can be used as it lies, or if the node is wrong, which its op
/// says.
struct Filter {
  IntList kernel;
  Shape shape;  ///< output channels, and taps times channels
};

std::optional<Filter> filter_of(const Graph& graph, const Node& node) {
  const auto* input = graph.tensor(node["input"]);
  const auto* weight = graph.tensor(node["weight"]);
  const auto groups = whole_number(graph.values[node["groups"]]);
  const auto transposed = whole_number(graph.values[node["transposed"]]);
  if (input == nullptr || weight == nullptr || !groups || !transposed || *groups < 1) return {};
  const bool is_transposed = *transposed != 0;
  const Shape& shape = weight->shape;
  if (shape.rank() < 3 || shape.rank() > 4 || input->shape.rank() != shape.rank() || shape[0] % *groups != 0) return {};
  if (input->shape[1] % *groups != 0) return {};
  const auto channels = input->shape[1] / *groups;
  if (channels != (is_transposed ? shape[0] / *groups : shape[1])) return {};
  Filter filter;
  Size taps = 1;
  for (std::size_t i = 2; i < shape.rank(); ++i) {
    filter.kernel.push_back(shape[i]);
    taps = taps * Size::from_signed(shape[i]);
  }
  const bool lies_well = !is_transposed && (channels == 1 || (taps.unchecked() == 1 && channels % 4 == 0));
  const auto rows =
      is_transposed ? Size::from_signed(shape[1]) * Size::from_signed(*groups) : Size::from_signed(shape[0]);
  const auto width = taps * Size::from_signed(channels).align_up(4);
  if (lies_well || !(rows * width * 4).fits(std::numeric_limits<std::int64_t>::max())) return {};
  filter.shape = Shape{static_cast<std::int64_t>(rows.unchecked()), static_cast<std::int64_t>(width.unchecked())};
  return filter;
}

}  // namespace

void split_filters(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  for (std::size_t n = 0; n < rewriter.size(); ++n) {
    const Node node = rewriter.node(n);
    const bool is_plain = node.op == "aten.convolution.default";
    if (!is_plain && node.op != "et_vk.conv_with_clamp.default" && node.op != "conv_with_clamp.default") continue;
    const auto filter = filter_of(graph, node);
    if (!filter) continue;
    const auto dtype = graph.tensor(node["weight"])->dtype;
    const ValueId kernel = rewriter.add(filter->kernel);
    const ValueId arranged = rewriter.add(TensorValue{.dtype = dtype, .staging = dtype, .shape = filter->shape});
    const ValueId none = rewriter.add(Null{});
    Node moved = rewriter.make(kFiltered, {{"input", node["input"]},
                                           {"weight", arranged},
                                           {"bias", node["bias"]},
                                           {"kernel_size", kernel},
                                           {"stride", node["stride"]},
                                           {"padding", node["padding"]},
                                           {"dilation", node["dilation"]},
                                           {"transposed", node["transposed"]},
                                           {"output_padding", node["output_padding"]},
                                           {"groups", node["groups"]},
                                           {"output_min", is_plain ? none : node["output_min"]},
                                           {"output_max", is_plain ? none : node["output_max"]},
                                           {"out", node["out"]}});
    rewriter.insert_after(n, std::move(moved));
    rewriter.replace(n, rewriter.make("nibble.filter", {{"weight", node["weight"]},
                                                        {"transposed", node["transposed"]},
                                                        {"groups", node["groups"]},
                                                        {"out", arranged}}));
  }
  rewriter.finish();
}

}  // namespace nibble
