// A tuning as JSON: {"choices": [{"choice": "product", "variant": "tile", "rows": [5, 64], "width": [0, 4096]}]}
#pragma once

#include <string_view>
#include <vector>

#include "graph/status.hpp"
#include "nibble/tuning.hpp"

namespace nibble {

/// A range that is missing is all sizes. A choice has no other fields; beside "choices" there may be any.
Result<std::vector<TuningRow>> tuning_from_json(std::string_view text);

}  // namespace nibble
