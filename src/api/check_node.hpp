// Whether Nibble can run one node, for those who make programs.
#pragma once

#include <string_view>

#include "graph/status.hpp"

namespace nibble {

/// Plans a graph of one node: `{"op": name, "arguments": [...], "out": value}`. A value is what it is in JSON; a
/// tensor is `{"dtype", "shape", "constant", "fixed"}` with its largest shape, a SymInt is `{}`. The output of an op
/// with several is a list. The error is the reason why no device can run it.
Status check_node(std::string_view json);

}  // namespace nibble
