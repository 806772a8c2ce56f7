#include "plan/print.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace nibble {
namespace {

std::uint32_t workgroup_of(const PipelineDesc& pipeline) {
  const auto found = std::ranges::find(pipeline.overrides, "WG", &PipelineDesc::Override::name);
  return found == pipeline.overrides.end() ? 0 : static_cast<std::uint32_t>(found->value);
}

std::uint32_t first_group_of(const Dispatch& dispatch) {
  Params::FirstGroup first = 0;
  std::memcpy(&first, dispatch.params.data(), sizeof(first));
  return first;
}

}  // namespace

std::string_view to_string(BufferRole role) noexcept {
  switch (role) {
    case BufferRole::constant: return "constant";
    case BufferRole::loading: return "loading";
    case BufferRole::state: return "state";
    case BufferRole::slot: return "slot";
    case BufferRole::fault: return "fault";
  }
  return "unknown";
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static constexpr std::string_view kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto amount = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // 1023.95 would be printed as 1024.0.
  while (amount >= 1023.95 && unit + 1 < std::size(kUnits)) {
    amount /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

std::vector<DispatchInfo> describe_dispatches(const Stepper& stepper) {
  const Plan& plan = stepper.plan();
  std::vector<DispatchInfo> all;
  all.reserve(stepper.dispatches().size());
  for (const Dispatch* d : stepper.dispatches()) {
    const PipelineDesc& pipeline = stepper.plan().layout().pipelines[d->pipeline];
    DispatchInfo info{.node = d->node,
                      .op = plan.graph().nodes[d->node].op,
                      .kernel = pipeline.label,
                      .grid = d->grid,
                      .first_group = first_group_of(*d),
                      .workgroup = workgroup_of(pipeline),
                      .bindings = {}};
    for (std::uint32_t i = 0; i < d->binding_count; ++i) {
      const BufferDesc& buffer = plan.layout().buffers[d->bindings[i]];
      info.bindings.push_back({d->bindings[i], buffer.role, pipeline.bindings[i], buffer.bytes});
    }
    all.push_back(std::move(info));
  }
  return all;
}

std::vector<ChoiceInfo> describe_choices(const Stepper& stepper) {
  const Plan& plan = stepper.plan();
  std::vector<ChoiceInfo> all;
  for (const auto& made : plan.choices()) {
    const auto taken = stepper.choices(made.node);
    const auto found = std::ranges::find(taken, made.choice, &Stepper::Chosen::choice);
    if (found == taken.end()) continue;
    const Variant& variant = made.choice->variants[found->variant];
    ChoiceInfo info{.op = plan.graph().nodes[made.node].op,
                    .choice = std::string(made.choice->name),
                    .chosen = std::string(variant.name),
                    .why = std::string(variant.why.text),
                    .possible = {},
                    .nodes = 0};
    for (auto v : made.possible) info.possible.emplace_back(made.choice->variants[v].name);
    const auto is_alike = [&](const ChoiceInfo& other) {
      return other.op == info.op && other.choice == info.choice && other.chosen == info.chosen &&
             other.possible == info.possible;
    };
    auto same = std::ranges::find_if(all, is_alike);
    if (same == all.end()) same = all.insert(all.end(), std::move(info));
    ++same->nodes;
  }
  return all;
}

std::string print_dispatches(std::span<const DispatchInfo> dispatches) {
  std::string text;
  auto out = std::back_inserter(text);
  for (std::size_t i = 0, next = 1; i < dispatches.size(); i = next++) {
    const auto& d = dispatches[i];
    while (next < dispatches.size() && dispatches[next].first_group != 0) ++next;
    fmt::format_to(out, "dispatch {}: {} (node {})\n", i, d.op, d.node);
    if (next > i + 1) fmt::format_to(out, "  in {} pieces, to dispatch {}\n", next - i, next - 1);
    fmt::format_to(out, "  kernel {}, grid {}, workgroup {}\n", d.kernel, fmt::join(d.grid, " x "), d.workgroup);
    for (std::size_t b = 0; b < d.bindings.size(); ++b) {
      const auto& binding = d.bindings[b];
      fmt::format_to(out, "  binding {}: {} {} {}, {}\n", b + 1, binding.access == Access::read ? "reads" : "writes",
                     to_string(binding.role), binding.buffer, format_bytes(binding.bytes));
    }
  }
  return text;
}

MemoryUse measure_memory(const Plan& plan) {
  MemoryUse use;
  for (const auto& buffer : plan.layout().buffers) {
    switch (buffer.role) {
      case BufferRole::constant: use.constants += buffer.bytes; break;
      case BufferRole::state: use.states += buffer.bytes; break;
      case BufferRole::slot: use.slots += buffer.bytes; break;
      case BufferRole::loading:
      case BufferRole::fault: break;
    }
  }
  const auto unshared = [&](std::uint64_t bytes) { use.slots_unshared += padded_size(bytes); };
  const Storage& storage = plan.storage();
  for (const auto& entry : storage.entries) {
    if (entry.role == BufferRole::slot) unshared(entry.bytes);
  }
  // Working memory of nodes lives in slots too.
  for (std::size_t n = 0; n < storage.scratch_bytes.size(); ++n) {
    if (storage.scratch_bytes[n] != 0 && storage.at_load[n] == 0) unshared(storage.scratch_bytes[n]);
  }
  for (std::size_t n = 0; n < storage.needs_twin.size(); ++n) {
    if (storage.needs_twin[n] == 0) continue;
    const ValueId out = plan.graph().nodes[n].out();
    unshared(storage.entries[storage.entry_of[out]].bytes);
  }
  use.staging = plan.layout().staging_bytes;
  return use;
}

}  // namespace nibble
