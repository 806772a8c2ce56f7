// A whole .pte file as a checked graph with everything a caller must know about its method.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"
#include "program/blob.hpp"
#include "program/container.hpp"

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

struct Program {
  std::string method;
  Graph graph;  ///< all constants are located, absolute in the file
  std::vector<HostValue> inputs;
  std::vector<HostValue> outputs;
  std::vector<std::int32_t> graph_inputs;  ///< per input: which of the graph's inputs it is, or -1 when it is not used
  std::vector<OutputSource> output_sources;  ///< per output
  std::vector<ConstantMethod> constant_methods;
};

/// Byte sizes of the container's named data, for read_blob(). The container must outlive the function.
NamedSize named_sizes(const Container& container);

/// Puts the container and the graph of its blob together, and checks that they agree.
Result<Program> join(Container container, Graph graph);

/// All of the above, for a file in memory.
Result<Program> read_program(std::span<const std::byte> file, std::string_view method = {});

}  // namespace nibble
