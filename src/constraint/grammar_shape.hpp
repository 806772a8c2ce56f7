// What holds of a grammar's graphs as a whole.
#pragma once

#include <optional>

#include "constraint/grammar.hpp"

namespace nibble::constraint {

/// Lets edges lead past nodes that only lead on.
void shorten(Grammar& grammar);

/// A rule that begins with itself, alone or by way of others.
std::optional<std::uint32_t> find_endless_rule(const Grammar& grammar);

}  // namespace nibble::constraint
