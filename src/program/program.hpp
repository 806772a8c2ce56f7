// A whole .pte file as a checked graph with everything a caller must know about its method.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "boundary/signature.hpp"
#include "graph/graph.hpp"
#include "program/blob.hpp"
#include "program/container.hpp"

namespace nibble {

struct Program {
  std::string method;
  Graph graph;  ///< all constants are located, absolute in the file
  MethodSignature signature;
  std::vector<ConstantMethod> constant_methods;
};

/// Byte sizes of the container's named data, for read_blob(). The container must outlive the function.
NamedSize named_sizes(const Container& container);

/// Puts the container and the graph of its blob together, and checks that they agree.
Result<Program> join(Container container, Graph graph);

/// All of the above, for a file in memory.
Result<Program> read_program(std::span<const std::byte> file, std::string_view method = {});

}  // namespace nibble
