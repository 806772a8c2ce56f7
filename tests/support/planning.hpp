// Plans of graphs that tests make by hand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/registry.hpp"
#include "plan/stepper.hpp"
#include "support/graph_builder.hpp"

namespace nibble::test {

inline Result<std::shared_ptr<const Plan>> make(const GraphBuilder& b, DeviceProfile profile = {},
                                                const Options& options = {}) {
  return Plan::make(b.graph, std::move(profile), options, ops::registry());
}

/// Empty where there is a plan.
inline std::string error_of(const GraphBuilder& b, DeviceProfile profile = {}, const Options& options = {}) {
  auto plan = make(b, std::move(profile), options);
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
