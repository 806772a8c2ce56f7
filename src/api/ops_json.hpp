// What there is of ops, for those who make programs: their list, and whether one can be lowered.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "graph/status.hpp"

namespace nibble {

/// All ops, with what each argument is for.
nlohmann::ordered_json ops_json();

/// Plans a graph of one node: `{"op": name, "arguments": [...], "out": value}`. A value is what it is in JSON; a
/// tensor is `{"dtype", "shape", "constant", "fixed"}` with its largest shape, a SymInt is `{}`. The output of an op
/// with several is a list. The error is the reason why no device can run it.
Status check_node(std::string_view json);

}  // namespace nibble
