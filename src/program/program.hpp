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

/// The part of a file that says where everything is.
struct FileProgram {
  ContainerHead head;
  AlignedBytes bytes;
};
Result<FileProgram> copy_program(const ByteSource& file);

/// All of the above.
Result<Program> read_program(const ByteSource& file, std::string_view method = {});
Result<Program> read_program(std::span<const std::byte> file, std::string_view method = {});

}  // namespace nibble
