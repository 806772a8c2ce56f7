#include "boundary/signature.hpp"

namespace nibble {
namespace {

TensorInfo info_of(const Graph& graph, ValueId id) {
  const auto* tensor = graph.tensor(id);
  if (tensor == nullptr) return {.dtype = DType::i64, .shape = {}, .dynamic = false, .is_int = true};
  // A delegate does not know which of its dimensions may be smaller.
  return {.dtype = tensor->staging, .shape = tensor->shape, .dynamic = true, .is_int = false};
}

}  // namespace

void add_output(MethodSignature& signature, const Graph& graph, std::size_t output) {
  signature.outputs.push_back(info_of(graph, graph.outputs[output]));
  signature.output_sources.push_back({OutputSource::Kind::graph, static_cast<std::uint32_t>(output), 0});
}

MethodSignature signature_of(const Graph& graph) {
  MethodSignature signature;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    signature.inputs.push_back(info_of(graph, graph.inputs[i]));
    signature.graph_inputs.push_back(static_cast<std::int32_t>(i));
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) add_output(signature, graph, i);
  return signature;
}

}  // namespace nibble
