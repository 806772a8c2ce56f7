#include "plan/pipeline_table.hpp"

#include <bit>

#include "plan/assembly.hpp"

namespace nibble {
namespace {

std::size_t hash_of(const Kernel& kernel, std::uint32_t workgroup) {
  std::uint64_t hash = reinterpret_cast<std::uintptr_t>(&kernel.shader.get()) ^ workgroup;
  const auto add = [&](std::uint64_t bits) { hash = (hash ^ bits) * 0x9e3779b97f4a7c15ULL; };
  for (const auto& one : kernel.overrides) add(std::bit_cast<std::uint64_t>(one.value));
  for (const char c : kernel.tail.text) add(static_cast<unsigned char>(c));
  add(0);
  return hash >> 56;
}

}  // namespace

bool PipelineTable::matches(PipelineId id, const Kernel& kernel, std::uint32_t workgroup) const {
  const Key& key = keys_[id];
  if (key.shader != &kernel.shader.get() || key.workgroup != workgroup || key.unchecked != kernel.unchecked ||
      key.bindings.size() != kernel.bind.size()) {
    return false;
  }
  for (std::size_t i = 0; i < key.bindings.size(); ++i) {
    if (!(key.bindings[i] == kernel.bind[i].format)) return false;
  }
  return key.overrides == kernel.overrides && key.slots == kernel.slots && key.expression == kernel.expression &&
         key.tail == kernel.tail.text;
}

std::optional<PipelineId> PipelineTable::find(const Kernel& kernel, std::uint32_t workgroup) const {
  for (const auto id : buckets_[hash_of(kernel, workgroup)]) {
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
  desc.unchecked = kernel.unchecked;
  Key key{.shader = &kernel.shader.get(),
          .workgroup = workgroup,
          .unchecked = kernel.unchecked,
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
  buckets_[hash_of(kernel, workgroup)].push_back(static_cast<PipelineId>(keys_.size()));
  keys_.push_back(std::move(key));
  descs_.push_back(std::move(desc));
  return {};
}

}  // namespace nibble
