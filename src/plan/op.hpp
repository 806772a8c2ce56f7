// What the planner knows about an op: a row at the end of its family's file in src/ops. registry.cpp lists the
// families.
#pragma once

#include <span>
#include <string_view>

#include "graph/note.hpp"
#include "graph/signature.hpp"
#include "plan/inline_vector.hpp"
#include "plan/shader.hpp"
#include "plan/variant.hpp"

namespace nibble {

class Lowering;

/// WGSL of an elementwise op, for four neighbouring elements at a time.
struct Expression {
  std::string_view on_floats{};
  std::string_view on_ints{};         ///< empty: computed as floats; an int32 output is an error
  const Shader* functions = nullptr;  ///< functions that they call
};

struct Op {
  Signature signature;
  /// Reads the arguments, sets the outputs' live shapes and emits dispatches. It may depend only on the lowering.
  Status (*lower)(Lowering&) = nullptr;
  Expression expression{};
  Note notes{};  ///< for docs/ops.md

  constexpr std::string_view name() const { return signature.op; }
};

/// A family of ops, and the choices between kernels that they make.
struct Family {
  std::string_view name;
  std::span<const Op> ops;
  InlineVector<const Choice*, 4> choices{};
};

using Registry = std::span<const Family>;

/// Null if there is no such op.
const Op* find_op(Registry registry, std::string_view name);

std::vector<const Choice*> all_choices(Registry registry);

}  // namespace nibble
