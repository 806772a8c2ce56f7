// What all doors lead to: a plan for a device of any kind with any options, and calls of random shapes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "graph/passes/passes.hpp"
#include "ops/registry.hpp"
#include "support/random_calls.hpp"

namespace nibble::test {

/// The input decides what is random: a find is found again.
inline std::uint32_t seed_of(std::span<const std::uint8_t> data) {
  std::uint32_t hash = 2166136261U;
  for (const auto byte : data) hash = (hash ^ byte) * 16777619U;
  return hash;
}

/// No variant for half of all inputs, else one for every choice.
inline Options forced_by(std::uint32_t seed) {
  Options options;
  if (seed % 2 == 0) return options;
  for (const auto* choice : all_choices(ops::registry())) {
    seed = seed * 1664525U + 1013904223U;
    const auto& variant = choice->variants[(seed >> 8U) % choice->variants.size()];
    options.variants.push_back({std::string(choice->name), std::string(variant.name)});
  }
  return options;
}

/// Rows for ranges that begin and end anywhere.
inline std::vector<TuningRow> tuning_by(std::uint32_t seed) {
  std::vector<TuningRow> tuning;
  std::minstd_rand random(seed);
  for (const auto* choice : all_choices(ops::registry())) {
    if (random() % 4 != 0) continue;
    const std::uint64_t rows = random() % 16;
    const std::uint64_t width = random() % 64;
    const auto& variant = choice->variants[random() % choice->variants.size()];
    tuning.push_back({std::string(choice->name), std::string(variant.name), rows, rows + random() % 64, width,
                      width + random() % 4096});
  }
  return tuning;
}

inline DeviceProfile profile_by(AdapterKind kind, std::uint32_t seed) {
  std::minstd_rand random(seed);
  const auto is = [&] { return random() % 2 == 0; };
  DeviceProfile profile;
  profile.kind = kind;
  profile.shader_f16 = is();
  profile.subgroups = is();
  profile.packed_dot = is();
  profile.mapped_storage = is();
  if (profile.subgroups) profile.subgroup_max = is() ? 4 : 32;
  if (is()) profile.subgroup_min = profile.subgroup_max;
  if (is()) profile.limits.max_workgroup_invocations = profile.limits.max_workgroup_size_x = 1024;
  if (is()) profile.limits.max_workgroup_bytes = 32768;
  if (is())
    profile.limits.max_buffer_size = profile.limits.max_storage_binding_size = std::uint64_t{1} << (10 + random() % 31);
  return profile;
}

inline Options options_by(std::uint32_t seed) {
  auto options = forced_by(seed);
  std::minstd_rand random(seed ^ 0x5bd1e995U);
  const auto rarely = [&] { return random() % 8 == 0; };
  constexpr std::uint64_t kShards[] = {0, 0, 16, 100, 1024, 65536};
  options.max_shard_bytes = kShards[random() % std::size(kShards)];
  options.f16_cache = rarely();
  if (rarely()) options.tuning = tuning_by(seed);
  for (const auto& pass : passes()) {
    if (rarely()) options.without_passes.emplace_back(pass.name);
  }
  if (rarely()) options.max_nodes = 1 + random() % 8;
  // Those of very small shards would take most of the time.
  options.max_dispatches = rarely() ? 1 + random() % 16 : 1U << 14U;
  if (rarely()) options.max_device_bytes = 1 + random() % 65536;
  if (rarely()) options.max_host_bytes = 1 + random() % 65536;
  if (rarely()) options.max_batch_work = 1 + random() % 64;
  if (rarely()) options.candidates = 1 + random() % 1100;
  return options;
}

/// Empty if there is none.
inline std::string bug_in(Graph graph, AdapterKind kind, std::uint32_t seed) {
  const auto profile = profile_by(kind, seed);
  const auto options = options_by(seed);
  const auto plan = Plan::make(graph, profile, options, ops::registry());
  if (plan) return RandomCalls(*plan, seed).find_bug(6);
  if (plan.error().code == ErrorCode::internal) return plan.error().message;
  // Goes on where planning stopped: what it finds does not matter, but it must end well.
  (void)Plan::refusals(std::move(graph), profile, options, ops::registry());
  return {};
}

inline void plan_and_step(Graph graph, AdapterKind kind, std::uint32_t seed) {
  const auto bug = bug_in(std::move(graph), kind, seed);
  if (bug.empty()) return;
  std::fprintf(stderr, "%s\n", bug.c_str());
  std::abort();
}

}  // namespace nibble::test
