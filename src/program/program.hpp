// A whole .pte file: a checked graph, and all that a caller must know about its method.
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
  Graph graph;  ///< all constants have offsets in the file
  MethodSignature signature;
  std::vector<ConstantMethod> constant_methods;
};

/// Byte sizes of the container's named data, for read_blob(). The container must outlive the function.
NamedSize named_sizes(const Container& container);

/// Combines the container with the graph of its blob, and checks that they agree.
Result<Program> join(Container container, Graph graph);

/// All of the above, for a file in memory.
Result<Program> read_program(std::span<const std::byte> file, std::string_view method = {});

}  // namespace nibble
