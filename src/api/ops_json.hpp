// The list of ops, for those who make programs and pages.
#pragma once

#include "api/json.hpp"

namespace nibble {

/// All ops, with what each argument is for.
Json ops_json();

}  // namespace nibble
