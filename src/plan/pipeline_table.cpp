#include "plan/pipeline_table.hpp"

#include "plan/assembly.hpp"

namespace nibble {

bool PipelineTable::matches(PipelineId id, const Kernel& kernel, std::uint32_t workgroup) const {
  const Key& key = keys_[id];
  if (key.shader != &kernel.shader.get() || key.workgroup != workgroup || key.bindings.size() != kernel.bind.size()) {
    return false;
  }
  for (std::size_t i = 0; i < key.bindings.size(); ++i) {
    if (!(key.bindings[i] == kernel.bind[i].format)) return false;
  }
  return key.overrides == kernel.overrides && key.slots == kernel.slots && key.expression == kernel.expression &&
         key.tail == kernel.tail.text;
}

std::optional<PipelineId> PipelineTable::find(const Kernel& kernel, std::uint32_t workgroup) const {
  // A plan has a few dozen pipelines; comparing keys is cheaper than hashing them.
  for (PipelineId id = 0; id < keys_.size(); ++id) {
    if (matches(id, kernel, workgroup)) return id;
  }
  return {};
}

Status PipelineTable::intern(const Kernel& kernel, std::uint32_t workgroup, const DeviceProfile& profile,
                             std::string_view op) {
  if (find(kernel, workgroup)) return {};
  const Assembly assembly(kernel, op);
  TRY(assembly.check(profile));
  PipelineDesc desc;
  desc.label = kernel.shader.get().name;
  desc.wgsl = assembly.text(profile);
  Key key{.shader = &kernel.shader.get(),
          .workgroup = workgroup,
          .overrides = kernel.overrides,
          .slots = kernel.slots,
          .expression = kernel.expression,
          .tail = std::string(kernel.tail.text)};
  for (const auto& b : kernel.bind) {
    key.bindings.push_back(b.format);
    desc.bindings.push_back(b.format.access);
    desc.reports_faults |= b.format.elem == Elem::atomics;
  }
  desc.overrides.push_back({"WG", static_cast<double>(workgroup)});
  for (const auto& one : kernel.overrides) desc.overrides.push_back({std::string(one.name), one.value});
  keys_.push_back(std::move(key));
  descs_.push_back(std::move(desc));
  return {};
}

}  // namespace nibble
