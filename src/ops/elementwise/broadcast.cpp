#include "ops/elementwise/broadcast.hpp"

#include <algorithm>

#include "ops/checks.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

// Of the operands that are not one element in every call:
constexpr std::uint32_t kWhole = 1;     // all have as many elements as the output
constexpr std::uint32_t kQuads = 2;     // the innermost run is whole quads
constexpr std::uint32_t kRepeated = 4;  // some is smaller than the output where all are largest

constexpr Variant kBroadcastVariants[] = {
    Variant("same", {.traits = kWhole}, {.none_of = kRepeated}, {}, {}, "element i comes from element i"),
    Variant("quads", {.traits = kQuads}, {.traits = kRepeated}, {}, {},
            "four neighbours are one vec4 of an operand, or one element of it"),
    Variant("elements", {}, {}, {}, {}, "right for all shapes; where largest shapes agree, live ones nearly always do"),
};

/// A dimension that a fixed operand has makes the output's, unless it is one.
bool makes_quads(const Lowering& op, const Tensor& operand) {
  if (!op.is_fixed(operand) || operand.rank() == 0) return false;
  const auto last = operand.shape[operand.rank() - 1];
  return last > 1 && last % 4 == 0;
}

}  // namespace

const Choice kBroadcast{"broadcast", kBroadcastVariants};

Reading choose_reading(Lowering& op, std::span<const Tensor* const> operands, const Out& out, bool in_quads) {
  bool is_whole = true;
  bool is_repeated = false;
  // A tensor and itself always agree.
  const bool is_one_tensor = std::ranges::all_of(operands, [&](const Tensor* t) { return t->id == operands[0]->id; });
  bool has_quads = false;
  bool all_fixed = true;
  for (const Tensor* t : operands) {
    all_fixed = all_fixed && op.is_fixed(*t);
    has_quads = has_quads || makes_quads(op, *t);
    if (op.bound(*t).numel() == 1) continue;
    is_whole = is_whole && t->numel() == out.numel();
    is_repeated = is_repeated || op.bound(*t).numel() != op.bound(out).numel();
  }
  const auto& variant = op.choose(kBroadcast, Facts{.rows = op.count(out)}
                                                  .trait(kWhole, is_whole, !all_fixed && !is_one_tensor)
                                                  .trait(kQuads, in_quads || has_quads, !all_fixed && !has_quads)
                                                  .trait(kRepeated, is_repeated, false));
  return static_cast<Reading>(&variant - kBroadcastVariants);
}

Kernel broadcast_kernel(Lowering& op, const Shader& shader, std::initializer_list<const Tensor*> operands,
                        const Out& out, const Alpha& alpha) {
  constexpr std::array<std::string_view, 3> kNames{"a", "b", "c"};
  constexpr std::array<std::string_view, 3> kOnes{"A_ONE", "B_ONE", "C_ONE"};
  wgsl::BroadcastParams params{.quads = quads_of(out.shape), .x = alpha.x, .i = alpha.i, .numbers = alpha.numbers};
  std::array<Shape, 3> shapes;
  std::ranges::transform(operands, shapes.begin(), &Tensor::shape);
  params.rank = collapse_broadcast(out.shape, std::span(shapes).first(operands.size()), params.sizes, params.strides);

  Kernel kernel{.shader = shader};
  std::size_t i = 0;
  for (const Tensor* t : operands) {
    kernel.bind.push_back(op.read(kNames[i], *t));
    kernel.overrides.push_back({kOnes[i++], flag(op.bound(*t).numel() == 1)});
  }
  kernel.bind.push_back(op.write("result", out));
  const bool in_quads = params.rank > 0 && params.sizes[params.rank - 1] % 4 == 0;
  kernel.overrides.push_back({"READING", static_cast<double>(choose_reading(op, operands, out, in_quads))});
  kernel.params = params;
  kernel.threads = params.quads;
  return kernel;
}

}  // namespace nibble::ops
