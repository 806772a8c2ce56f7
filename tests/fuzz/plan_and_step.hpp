// What both doors lead to: a plan for an adapter of either kind, with some kernels forced, and calls of random shapes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

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

inline void plan_and_step(Graph graph, AdapterKind kind, std::uint32_t seed) {
  DeviceProfile profile;
  profile.kind = kind;
  const auto options = forced_by(seed);
  const auto plan = Plan::make(graph, profile, options, ops::registry());
  if (!plan) {
    // Goes on where planning stopped: what it finds does not matter, but it must end well.
    (void)Plan::refusals(std::move(graph), profile, options, ops::registry());
    return;
  }
  const auto bug = RandomCalls(*plan, seed).find_bug(6);
  if (bug.empty()) return;
  std::fprintf(stderr, "%s\n", bug.c_str());
  std::abort();
}

}  // namespace nibble::test
