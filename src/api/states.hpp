// Converts the layout's description of state for callers.
#pragma once

#include "api/json.hpp"
#include "nibble/values.hpp"
#include "plan/plan.hpp"

namespace nibble {

StateInfo state_info(const StateDesc& desc, std::int64_t rows);

Json to_json(const StateInfo& state);

}  // namespace nibble
