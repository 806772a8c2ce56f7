// What both doors lead to: a plan, for an adapter of either kind, and calls of several sizes.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "ops/registry.hpp"
#include "plan/stepper.hpp"
#include "support/plan_checks.hpp"

namespace nibble::test {

/// A call may be refused, but a plan that cannot hold what it promised is a bug.
inline void update(Stepper& stepper) {
  const auto status = stepper.update();
  const bool is_bug = !status && status.error().code == ErrorCode::internal;
  const auto wrong = is_bug ? status.error().message : status ? wrong_binding(stepper) : "";
  if (wrong.empty()) return;
  std::fprintf(stderr, "%s\n", wrong.c_str());
  std::abort();
}

inline void plan_and_step(Graph graph, AdapterKind kind) {
  DeviceProfile profile;
  profile.kind = kind;
  const auto plan = Plan::make(std::move(graph), profile, {}, ops::registry());
  if (!plan) return;
  Stepper stepper(*plan);
  update(stepper);
  const auto& inputs = (*plan)->layout().inputs;
  for (const std::int64_t size : {1, 3, 70, 0}) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Shape shape = inputs[i].bound;
      for (std::size_t d = 0; d < shape.rank(); ++d) shape[d] = std::min(shape[d], size);
      (void)(inputs[i].is_symint ? stepper.set_int(i, size) : stepper.set_shape(i, shape));
    }
    update(stepper);
  }
}

}  // namespace nibble::test
