// The pipelines of a plan, each once. They are added at load; a call only looks them up, which allocates nothing.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "graph/status.hpp"
#include "plan/kernel.hpp"
#include "plan/profile.hpp"

namespace nibble {

class PipelineTable {
 public:
  /// Adds the kernel's pipeline, if it is not there yet. A slot left open or a list that is too long is an error of
  /// `op`.
  Status intern(const Kernel& kernel, std::uint32_t workgroup, const DeviceProfile& profile, std::string_view op);

  std::optional<PipelineId> find(const Kernel& kernel, std::uint32_t workgroup) const;
  /// Whether `id`, which must be in this table, is the kernel's pipeline.
  bool matches(PipelineId id, const Kernel& kernel, std::uint32_t workgroup) const;
  std::span<const PipelineDesc> descs() const { return descs_; }

 private:
  /// What distinguishes pipelines.
  struct Key {
    const Shader* shader = nullptr;
    std::uint32_t workgroup = 64;
    bool unchecked = false;
    InlineVector<BindingFormat, kMaxBindings> bindings{};
    Overrides overrides{};
    Slots slots{};
    std::string_view expression{};
    std::string tail{};
  };

  std::vector<Key> keys_;
  /// By a hash: a plan has a few dozen pipelines, but a hostile program may need very many.
  std::array<std::vector<PipelineId>, 256> buckets_;
  std::vector<PipelineDesc> descs_;
};

}  // namespace nibble
