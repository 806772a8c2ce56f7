// The list of ops, for those who make programs and pages.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace nibble {

/// All ops, with what each argument is for.
nlohmann::ordered_json ops_json();

}  // namespace nibble
