// The .pte container. It is read in stages, so that a file can also come over a network: the head says how long the
// program is, and the program says where everything else is. Offsets are absolute in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"
#include "nibble/values.hpp"

namespace nibble {

/// read_head() needs at most this many bytes.
inline constexpr std::size_t kHeadBytes = 64;

struct ContainerHead {
  std::uint64_t program_size = 0;  ///< the program is the first bytes of the file
  std::uint64_t segment_base = 0;  ///< 0: the file has no segments
  std::uint64_t file_size = 0;
};

struct FileRange {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

/// An input or output as the host sees it.
using HostValue = TensorInfo;

/// A value of the method. Equal ids are the same value.
struct MethodValue {
  std::uint32_t id = 0;
  HostValue host;
  std::int64_t integer = 0;            ///< what the file stores for an integer
  std::optional<FileRange> data = {};  ///< of a constant tensor
};

struct Container {
  std::string method;
  FileRange blob;  ///< of the one delegate
  std::map<std::string, FileRange, std::less<>> named;
  std::vector<MethodValue> inputs;
  std::vector<MethodValue> outputs;
  std::vector<MethodValue> arguments;  ///< of the delegate call: its inputs, then its outputs
  std::vector<ConstantMethod> constant_methods;
};

/// `first_bytes`: the first kHeadBytes bytes, or the whole file if it is shorter.
Result<ContainerHead> read_head(std::span<const std::byte> first_bytes, std::uint64_t file_size);

/// `program`: the first head.program_size bytes. An empty `method` means `forward`, or the only method that computes.
Result<Container> read_container(std::span<const std::byte> program, const ContainerHead& head,
                                 std::string_view method = {});

struct Delegates {
  Container shared;  ///< without a blob, and without the values of the method, which make sense only for one call
  std::vector<FileRange> blobs;
};

/// Those for Vulkan of a method that may have several, and operators between them.
Result<Delegates> read_delegates(std::span<const std::byte> program, const ContainerHead& head,
                                 std::string_view method = {});

}  // namespace nibble
