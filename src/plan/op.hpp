// What an op is to the planner. The list of all ops is src/ops/registry.cpp.
#pragma once

#include <span>
#include <string_view>

#include "nibble/types.hpp"

namespace nibble {

class OpContext;

struct OpTraits {
  /// The output may share the storage of an argument, if both have the same bytes.
  bool alias = false;
  /// Which argument that is.
  std::uint8_t alias_arg = 0;
  /// Its result is a SymInt that depends on the elements of a program input, so it is worked out anew on every call.
  bool reads_data = false;
  /// Bit i: argument i is written in place (a KV cache).
  std::uint32_t mutates = 0;
  /// Bit i: argument i, if it is too large for one buffer, is to be split by columns (its last dimension), not by rows.
  std::uint32_t by_columns = 0;
};

struct OpEntry {
  std::string_view name;
  /// Reads the arguments, says the output's live shape, emits dispatches. Pure: it may depend on the context alone.
  Status (*lower)(OpContext&);
  OpTraits traits;
  std::string_view dtypes;  ///< for docs/ops.md
  std::string_view notes;   ///< for docs/ops.md
};

using Registry = std::span<const OpEntry>;

}  // namespace nibble
