// A tuning as JSON: {"choices": [{"choice": "product", "variant": "tile", "rows": [5, 64], "width": [0, 4096]}]}
#pragma once

#include <string_view>
#include <vector>

#include "graph/status.hpp"
#include "nibble/tuning.hpp"

namespace nibble {

/// Reads each choice with read_choice(). Other fields next to "choices" are ignored.
Result<std::vector<TuningRow>> tuning_from_json(std::string_view text);

}  // namespace nibble
