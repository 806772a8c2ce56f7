// What callers say about kernel variants: those that they force, and a tuning.
#pragma once

#include <string_view>

#include "graph/status.hpp"
#include "nibble/options.hpp"

namespace nibble {

/// Of `product=tile`; points into the text.
struct ForcedVariant {
  std::string_view choice;
  std::string_view variant;
};

Result<ForcedVariant> parse_variant(std::string_view text);

/// What must hold of variants and tuning wherever they come from. Whether their names are known is not looked at.
Status check_variants(const Options& options);

}  // namespace nibble
