// What callers say about kernel variants: forced ones, and a tuning.
#pragma once

#include <string_view>

#include "graph/status.hpp"
#include "nibble/options.hpp"

namespace nibble {

/// The parts of `product=tile`; they point into the text.
struct ForcedVariant {
  std::string_view choice;
  std::string_view variant;
};

Result<ForcedVariant> parse_variant(std::string_view text);

/// Checks forced variants and the tuning, except whether their names exist.
Status check_variants(const Options& options);

}  // namespace nibble
