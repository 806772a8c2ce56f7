// Bytes that become floats, and then the same bytes again, stay what they are.
#include "graph/passes/rewrite.hpp"

namespace nibble {
namespace {

constexpr std::string_view kBack = "quantized_decomposed.dequantize_per_tensor.default";

/// Whether quantizing gives every byte back: rounding forgives the error of the two products.
bool gives_back(const Rewriter& rewriter, const Node& back, const Node& node) {
  const Graph& graph = rewriter.graph();
  const auto* bytes = graph.tensor(back["input"]);
  const auto* made = graph.tensor(node["out"]);
  const auto* floats = graph.tensor(node["input"]);
  if (bytes == nullptr || made == nullptr || floats == nullptr || floats->dtype != DType::f32) return false;
  const bool has_sign = bytes->dtype == DType::i8;
  if ((!has_sign && bytes->dtype != DType::u8) || made->dtype != bytes->dtype || !(made->shape == bytes->shape)) {
    return false;
  }
  const auto* scale = std::get_if<double>(&graph.values[node["scale"]]);
  const auto zero = whole_number(graph.values[node["zero_point"]]);
  const bool can_divide = scale != nullptr && *scale > 1e-30 && *scale < 1e30;
  if (!can_divide || !zero || *zero < -255 || *zero > 255) return false;
  return rewriter.same(back["scale"], node["scale"]) && rewriter.same(back["zero_point"], node["zero_point"]) &&
         rewriter.is_number(node["quant_min"], has_sign ? -128 : 0) &&
         rewriter.is_number(node["quant_max"], has_sign ? 127 : 255);
}

}  // namespace

void quantize_pairs(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  for (std::size_t n = 0; n < rewriter.size(); ++n) {
    const Node& node = rewriter.node(n);
    if (node.op != "quantized_decomposed.quantize_per_tensor.default") continue;
    const auto back = rewriter.producer(rewriter.target(node["input"]), kBack);
    if (!back || !gives_back(rewriter, rewriter.node(*back), node)) continue;
    const ValueId bytes = rewriter.node(*back)["input"];
    if (!rewriter.is_steady(bytes) || !rewriter.producer(node["out"]) || rewriter.is_output(node["out"])) continue;
    rewriter.redirect(node["out"], bytes);
    rewriter.remove(n);
  }
  rewriter.finish();
}

}  // namespace nibble
