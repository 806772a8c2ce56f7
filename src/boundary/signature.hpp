// A method's inputs and outputs, and how they map to its graph's.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.hpp"
#include "nibble/values.hpp"

namespace nibble {

/// Where an output of the method comes from.
struct OutputSource {
  enum class Kind : std::uint8_t {
    graph,     ///< output `index` of the graph
    input,     ///< input `index` of the method, passed through
    constant,  ///< the integer `value`
  };
  Kind kind = Kind::graph;
  std::uint32_t index = 0;
  std::int64_t value = 0;
};

struct MethodSignature {
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
  std::vector<std::int32_t> graph_inputs;    ///< per input: the graph's input that it is, or -1 if it is not used
  std::vector<OutputSource> output_sources;  ///< per output
};

/// Appends an output of the graph.
void add_output(MethodSignature& signature, const Graph& graph, std::size_t output);

/// For a graph that is called directly, without a method around it.
MethodSignature signature_of(const Graph& graph);

}  // namespace nibble
