// What an executor needs to run a program, as plain data. It says nothing about ops. The Layout is made once, at load.
// A Stepper (see stepper.hpp) says what one call does.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"
#include "plan/profile.hpp"

namespace nibble {

using BufferId = std::uint32_t;
inline constexpr BufferId kNoBuffer = 0xffffffff;
using PipelineId = std::uint32_t;

enum class BufferRole : std::uint8_t {
  constant,  ///< belongs to the Model, filled by uploads or at load by dispatches, then never written
  loading,   ///< like a constant, but only dispatches at load need it; gone when the Model is loaded
  state,     ///< belongs to the Session, filled by uploads when it is made, keeps its value from call to call
  slot,      ///< belongs to the Session: inputs, intermediates and outputs; shared where lifetimes do not overlap
  fault,     ///< belongs to the Session: kFaultWords words for bad data that kernels report; zero before each call
};

/// What the host maps a buffer for while no call uses it.
enum class HostUse : std::uint8_t {
  none,
  read,   ///< an output, or the fault buffer
  write,  ///< an input
};

/// Every buffer is a multiple of 16 bytes and at least 16, so kernels may read and write whole vec4s. The padding after
/// the last element has no meaning.
struct BufferDesc {
  std::uint64_t bytes = 0;
  BufferRole role = BufferRole::slot;
  HostUse mapped = HostUse::none;
};

/// Copies `bytes` bytes of constant `constant`, from `source_offset` on, to `buffer` at `buffer_offset` (a multiple of
/// 4). With `narrow`, float32 becomes float16, half as many bytes.
struct Upload {
  BufferId buffer = 0;
  std::uint64_t buffer_offset = 0;
  std::uint32_t constant = 0;
  std::uint64_t source_offset = 0;
  std::uint64_t bytes = 0;
  bool narrow = false;
};

enum class Access : std::uint8_t { read, read_write };

/// A compute pipeline: entry point `main`, group 0 with a uniform block of parameters (dynamic offset) at binding 0
/// and storage buffers at bindings 1, 2, …
struct PipelineDesc {
  struct Override {
    std::string name;
    double value = 0;
  };
  std::string label;  ///< the kernel's name, for messages
  std::string wgsl;
  std::vector<Access> bindings;
  std::vector<Override> overrides;
  bool reports_faults = false;
  bool unchecked = false;  ///< the engine may leave out bounds checks
};

inline constexpr std::size_t kMaxBindings = 8;
/// Room for one dispatch's parameters, and the stride of parameter blocks. 256 satisfies every uniform alignment.
inline constexpr std::size_t kParamsStride = 256;

/// A dispatch, or a piece of one.
struct Dispatch {
  PipelineId pipeline = 0;
  std::uint32_t node = 0;  ///< index into the planned graph's nodes, for labels, profiles and faults
  std::array<std::uint32_t, 3> grid{};
  std::uint64_t work = 0;  ///< see batches.hpp
  std::uint32_t binding_count = 0;
  std::array<BufferId, kMaxBindings> bindings{};  ///< whole buffers
  std::uint32_t params_bytes = 0;
  alignas(8) std::array<std::byte, kParamsStride> params{};
};

/// The first word is 0 if there is no fault, else 1 + the node. Then position and value of the bad index, and the fault
/// site.
inline constexpr std::size_t kFaultWords = 4;

/// Node `node` looks up the elements of an input in a table of `rows` rows, so the host checks them.
struct IndexCheck {
  std::uint32_t node = 0;
  std::string_view arg;
  std::int64_t rows = 0;
};

struct InputDesc {
  ValueId value = 0;
  bool is_symint = false;
  DType dtype = DType::f32;    ///< on the device
  DType staging = DType::f32;  ///< on the host, according to the graph (which says int32 where the caller passes int64)
  Shape bound;
  BufferId buffer = 0;
  bool used = false;       ///< some dispatch or output reads it, so it must be uploaded
  bool host_read = false;  ///< the Stepper wants the elements (as int32) before update()
  std::vector<IndexCheck> checks;
};

/// Rows [row_begin, row_end) of a tensor, in a buffer of their own; columns if the tensor is split by columns.
struct Shard {
  BufferId buffer = 0;
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
};

struct OutputDesc {
  ValueId value = 0;
  bool is_symint = false;
  DType dtype = DType::f32;
  DType staging = DType::f32;
  Shape bound;
  BufferId buffer = 0;
};

/// A tensor that keeps its value from call to call, such as a KV cache.
struct StateDesc {
  static constexpr std::int32_t kNoRows = -1;

  ValueId value = 0;
  BufferId buffer = 0;
  std::string_view role;  ///< its argument name in the op that changes it, such as "key_cache"
  DType dtype = DType::f32;
  Shape shape;
  std::int32_t row_axis = kNoRows;  ///< the dimension that calls fill from the front; see Stepper::state_rows()
};

struct Layout {
  std::vector<BufferDesc> buffers;
  std::vector<Upload> uploads;
  std::vector<PipelineDesc> pipelines;  ///< all that calls may need
  std::vector<InputDesc> inputs;
  std::vector<OutputDesc> outputs;
  std::vector<StateDesc> states;
  BufferId fault_buffer = 0;
  bool can_fault = false;
  std::uint64_t staging_bytes = 0;   ///< room for what is not mapped: outputs at their largest shapes, and a fault
  std::uint32_t max_dispatches = 0;  ///< upper bound on the dispatches of one call
  std::uint64_t batch_work = 0;      ///< of one submission; see batches.hpp
  std::uint64_t piece_work = 0;      ///< a dispatch with more is cut into pieces; see pieces.hpp
};

}  // namespace nibble
