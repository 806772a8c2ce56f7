#pragma once

#include "plan/op.hpp"

namespace nibble::ops {

/// All ops, by name.
Registry registry();

}  // namespace nibble::ops
