// In a header of its own, for those who pass tensors on before Nibble's library sees them.
#pragma once

#include "graph/status.hpp"

namespace nibble {

inline Error too_many_dimensions(std::string_view label, std::uint64_t rank) {
  return {ErrorCode::invalid_argument,
          fmt::format("{} has {} dimensions, but the most is {}", label, rank, Shape::kMaxRank)};
}

}  // namespace nibble
