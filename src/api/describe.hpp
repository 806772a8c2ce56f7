// Describes devices, state and constants to callers.
#pragma once

#include "api/json.hpp"
#include "nibble/nibble.hpp"
#include "nibble/values.hpp"
#include "plan/plan.hpp"

namespace nibble {

StateInfo state_info(const StateDesc& desc, std::int64_t rows);

Result<Json> to_json(const DeviceInfo& info);
Json to_json(const StateInfo& state);
/// What it returns, as a list.
Json to_json(const ConstantMethod& method);
/// Name to value, or to a list if a method returns several.
Json to_json(std::span<const ConstantMethod> methods);

}  // namespace nibble
