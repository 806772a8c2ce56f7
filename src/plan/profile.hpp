// What planning may depend on. It can be saved as JSON, so that a plan for a phone can be made on a laptop.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace nibble {

enum class AdapterKind : std::uint8_t { discrete, integrated, cpu, unknown };

std::string_view to_string(AdapterKind kind) noexcept;

/// The limits that plans depend on. The defaults are those that every WebGPU device has.
struct Limits {
  std::uint64_t max_buffer_size = 268435456;
  std::uint64_t max_storage_binding_size = 134217728;
  std::uint32_t max_workgroups_per_dimension = 65535;
  std::uint32_t max_workgroup_invocations = 256;
  std::uint32_t max_workgroup_size_x = 256;
  std::uint32_t max_workgroup_bytes = 16384;  ///< of workgroup memory
};

struct DeviceProfile {
  /// How often a thread may go round its loops, all of them together: Mesa's llvmpipe ends them after 65535 rounds, and
  /// nobody is told. Beyond this, work is split among more threads or dispatches.
  static constexpr std::uint64_t kMaxRounds = 60000;

  std::string name = "default limits";
  std::string driver;
  std::string backend;
  std::string engine;  ///< the WebGPU implementation: "dawn", "wgpu", or none of them in a browser
  AdapterKind kind = AdapterKind::unknown;
  Limits limits;
  bool shader_f16 = false;
  bool f16_products = false;  ///< tiles of products hold halves: the option, where the device has shader_f16
  bool subgroups = false;
  bool packed_dot = false;  ///< WGSL here has dot4I8Packed
  bool timestamp_query = false;
  bool mapped_storage = false;     ///< memory is one, and the host can map the buffers that kernels use
  std::uint32_t subgroup_min = 0;  ///< threads of a subgroup; 0: the engine does not say
  bool unchecked_kernels = false;  ///< the engine can leave out the bounds checks of a kernel
  std::uint32_t subgroup_max = 0;
  /// Tint needs `enable subgroups;` in a kernel that uses them, naga rejects it.
  bool subgroups_need_enable = false;

  /// How often a thread may go round its loops on this device.
  [[nodiscard]] std::uint64_t max_rounds() const noexcept {
    return kind == AdapterKind::cpu ? kMaxRounds : std::numeric_limits<std::uint64_t>::max();
  }

  /// So many threads give all cores work; those of a CPU adapter run 8 as one.
  [[nodiscard]] std::uint32_t busy_threads() const noexcept { return kind == AdapterKind::cpu ? 256 : 65536; }

  /// Whether all subgroups have one size that is known. Where it may vary from kernel to kernel, or nobody says what it
  /// is, the forms of kernels that need subgroups may be slow.
  [[nodiscard]] bool has_even_subgroups() const noexcept {
    return subgroups && subgroup_min != 0 && subgroup_min == subgroup_max;
  }

  /// Threads that a CPU adapter runs as one vector.
  [[nodiscard]] std::uint32_t vector_lanes() const noexcept { return subgroup_max == 4 ? 4 : 8; }
};

}  // namespace nibble
