// What a method takes and gives, and which of its graph's inputs and outputs these are.
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
  std::vector<std::int32_t> graph_inputs;  ///< per input: which of the graph's inputs it is, or -1 when it is not used
  std::vector<OutputSource> output_sources;  ///< per output
};

/// Of a graph that is called as it is, with no method around it.
MethodSignature signature_of(const Graph& graph);

}  // namespace nibble
