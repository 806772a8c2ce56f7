// The options of the C API.
#pragma once

#include "nibble/nibble.h"
#include "nibble/options.hpp"
#include "nibble/types.hpp"

namespace nibble {

Result<Options> options_from_c(const nibble_load_options& given);

}  // namespace nibble
