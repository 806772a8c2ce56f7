// A device profile as JSON, so that one machine can plan for another's device.
#pragma once

#include <string>
#include <string_view>

#include "graph/status.hpp"
#include "plan/profile.hpp"

namespace nibble {

std::string profile_to_json(const DeviceProfile& profile);

/// Every field that profile_to_json() writes must be there; others are ignored. It may be in a list of just one, which
/// `nibble devices --json` prints where there is one adapter.
Result<DeviceProfile> profile_from_json(std::string_view text);

}  // namespace nibble
