// Operands that are repeated to the shape of the output, as broadcast.wgsl reads them.
#pragma once

#include "ops/elementwise/strides.hpp"
#include "plan/lowering.hpp"

namespace nibble::ops {

/// How a thread that makes four neighbouring elements reads its operands.
extern const Choice kBroadcast;

/// What an expression may use beside its operands.
struct Alpha {
  float x = 1;
  std::int32_t i = 1;
  std::array<float, 8> numbers{};
};

/// How the elements of operands are found, in the order of kBroadcast's variants.
enum class Reading : std::uint8_t { same, quads, elements };
/// `in_quads`: the innermost of the dimensions that are left when neighbours are merged is whole quads in this call.
Reading choose_reading(Lowering& op, std::span<const Tensor* const> operands, const Out& out, bool in_quads);

/// A kernel that makes `out`, whose shape is set, of two or three operands, which are bound as a, b and c.
Kernel broadcast_kernel(Lowering& op, const Shader& shader, std::initializer_list<const Tensor*> operands,
                        const Out& out, const Alpha& alpha);

}  // namespace nibble::ops
