// What an op is to the planner: a row at the end of its family's file in src/ops. registry.cpp lists the families.
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

/// WGSL of an elementwise op, of four neighbouring elements at a time.
struct Expression {
  std::string_view on_floats{};
  std::string_view on_ints{};         ///< empty: integers are computed as floats
  const Shader* functions = nullptr;  ///< what they call
};

struct Op {
  Signature signature;
  /// Reads the arguments, says the outputs' live shapes, emits dispatches. Pure: it may depend on the lowering alone.
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
