// Every distinct pipeline of a plan, once. Looking one up allocates nothing; only a new one has its WGSL written.
#pragma once

#include <vector>

#include "plan/plan.hpp"
#include "plan/shader.hpp"

namespace nibble {

/// How a kernel sees a storage buffer: as tensor elements (with generated load and store functions), or raw.
enum class Elem : std::uint8_t { f32, f16, i32, boolean, u8, i8, words, words4, atomics };

Elem elem_of(DType dtype);

struct BindingFormat {
  std::string_view name;
  Access access = Access::read;
  Elem elem = Elem::f32;
  std::uint8_t lanes = 4;  ///< elements per load and store

  friend bool operator==(const BindingFormat&, const BindingFormat&) = default;
};

struct OverrideValue {
  std::string_view name;
  double value = 0;

  friend bool operator==(const OverrideValue&, const OverrideValue&) = default;
};

/// What a pipeline is made from. All text is static: kernels and their ops outlive every plan.
struct PipelineKey {
  static constexpr std::size_t kMaxOverrides = 6;
  static constexpr std::size_t kMaxLines = 6;

  const Shader* shader = nullptr;
  std::uint32_t workgroup = 64;
  std::uint32_t binding_count = 0;
  std::uint32_t override_count = 0;
  std::uint32_t line_count = 0;
  std::array<BindingFormat, kMaxBindings> bindings{};
  std::array<OverrideValue, kMaxOverrides> overrides{};
  std::array<std::string_view, kMaxLines> lines{};  ///< WGSL that the op puts in front of the body

  friend bool operator==(const PipelineKey&, const PipelineKey&) = default;
};

class PipelineTable {
 public:
  PipelineId intern(const PipelineKey& key, const DeviceProfile& profile);
  std::span<const PipelineDesc> descs() const { return descs_; }

 private:
  std::vector<PipelineKey> keys_;
  std::vector<PipelineDesc> descs_;
};

}  // namespace nibble
