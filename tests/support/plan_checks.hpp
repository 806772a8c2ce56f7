// What holds of every call, whatever it computes.
#pragma once

#include <fmt/format.h>

#include <string>

#include "plan/stepper.hpp"

namespace nibble::test {

/// A sentence if a dispatch binds what is no buffer, or writes a constant: those are shared by all sessions.
inline std::string wrong_binding(const Stepper& stepper) {
  const auto& buffers = stepper.plan().layout().buffers;
  for (const auto* d : stepper.dispatches()) {
    const auto& pipeline = stepper.plan().layout().pipelines[d->pipeline];
    for (std::size_t i = 0; i < d->binding_count; ++i) {
      const auto id = d->bindings[i];
      const auto& node = stepper.plan().graph().nodes[d->node];
      if (id >= buffers.size()) return fmt::format("{} ({}) binds buffer {}", node.op, pipeline.label, id);
      if (pipeline.bindings[i] == Access::read_write && buffers[id].role == BufferRole::constant) {
        return fmt::format("{} ({}) writes constant {}", node.op, pipeline.label, id);
      }
    }
  }
  return {};
}

/// A sentence if a piece of a dispatch does not begin where the one before it ends.
inline std::string wrong_piece(const Stepper& stepper) {
  const Dispatch* before = nullptr;
  std::uint64_t next = 0;
  for (const auto* d : stepper.dispatches()) {
    Params::FirstGroup first = 0;
    std::memcpy(&first, d->params.data(), sizeof(first));
    const bool follows = before != nullptr && before->node == d->node && before->pipeline == d->pipeline &&
                         before->bindings == d->bindings && next == first;
    if (first != 0 && !follows) {
      return fmt::format("{} begins at workgroup {}, not at {}", stepper.plan().graph().nodes[d->node].op, first, next);
    }
    next = first + std::uint64_t{d->grid[0]} * d->grid[1] * d->grid[2];
    before = d;
  }
  return {};
}

}  // namespace nibble::test
