// Plans of graphs that tests make by hand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/registry.hpp"
#include "plan/stepper.hpp"
#include "support/graph_builder.hpp"
#include "support/random_calls.hpp"

namespace nibble::test {

/// Random calls of a plan find nothing unplanned, nor do those of the same with each variant of each choice that it
/// makes, and with dispatches in pieces.
inline void expect_no_surprise(const GraphBuilder& b, const std::shared_ptr<const Plan>& plan, const Options& options) {
  constexpr int kCalls = 12;
  EXPECT_EQ(RandomCalls(plan, 1).find_bug(kCalls), "");
  Options cut = options;
  cut.max_batch_work = 64;
  if (const auto pieces = Plan::make(b.graph, plan->profile(), cut, ops::registry())) {
    EXPECT_EQ(RandomCalls(*pieces, 3).find_bug(2), "") << "in pieces";
  }
  std::vector<const Choice*> seen;
  for (const auto& made : plan->choices()) {
    if (std::ranges::find(seen, made.choice) != seen.end()) continue;
    seen.push_back(made.choice);
    for (const auto& variant : made.choice->variants) {
      Options forced = options;
      forced.variants = {{std::string(made.choice->name), std::string(variant.name)}};
      const auto what = fmt::format("{}={}", made.choice->name, variant.name);
      const auto other = Plan::make(b.graph, plan->profile(), forced, ops::registry());
      if (!other) {
        ADD_FAILURE() << what << ": " << other.error().message;
        continue;
      }
      EXPECT_EQ(RandomCalls(*other, 2).find_bug(kCalls), "") << what;
    }
  }
}

/// Whatever graph a test makes, its plan has all that any call needs, whichever kernels it takes.
inline Result<std::shared_ptr<const Plan>> make(const GraphBuilder& b, const DeviceProfile& profile = {},
                                                const Options& options = {}) {
  auto plan = Plan::make(b.graph, profile, options, ops::registry());
  if (plan) expect_no_surprise(b, *plan, options);
  return plan;
}

/// Empty where there is a plan.
inline std::string error_of(const GraphBuilder& b, const DeviceProfile& profile = {}, const Options& options = {}) {
  auto plan = make(b, profile, options);
  return plan ? "" : plan.error().message;
}

#define EXPECT_MENTIONS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

inline std::size_t count(const Plan& plan, BufferRole role) {
  return static_cast<std::size_t>(std::ranges::count(plan.layout().buffers, role, &BufferDesc::role));
}

/// A gather from a 4-bit table.
struct Table {
  GraphBuilder b;
  ValueId ids;
  ValueId out;
};

inline Table table(std::int64_t rows, std::int64_t width, std::int64_t group, Shape ids) {
  Table t;
  const auto weight = t.b.constant(DType::u8, {rows, width / 2});
  const auto scales = t.b.constant(DType::f32, {rows, width / group});
  t.ids = t.b.input(t.b.tensor(DType::i32, ids));
  t.out = t.b.embedding_q4(weight, scales, group, t.ids);
  t.b.output(t.out);
  return t;
}

}  // namespace nibble::test
