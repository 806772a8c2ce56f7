// Converts the layout's description of state for callers.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "nibble/values.hpp"
#include "plan/plan.hpp"

namespace nibble {

StateInfo state_info(const StateDesc& desc, std::int64_t rows);

nlohmann::ordered_json to_json(const StateInfo& state);

}  // namespace nibble
