// The file of a saved session: a head that says which program's and which state's, a note of whoever saved it, the
// bytes that count, a checksum.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "api/fingerprint.hpp"
#include "plan/layout.hpp"
#include "program/bytes.hpp"

namespace nibble {

inline constexpr std::uint32_t kSavedVersion = 1;

/// What the file begins with: sizes are those of the layout's states, `rows` how many are in use of each, and
/// `data_bytes` follow. After them come the 8 bytes of PlaceHash over all before.
std::vector<std::byte> saved_head(const Fingerprint& program, std::span<const StateDesc> states,
                                  std::span<const std::int64_t> rows, std::span<const std::byte> note,
                                  std::uint64_t data_bytes);

struct SavedState {
  std::vector<std::int64_t> rows;  ///< of each state, in range
  std::vector<std::byte> note;     ///< what was given to saved_head()
  std::uint64_t data_offset = 0;
  std::uint64_t data_bytes = 0;
};

/// Reads all of a file, in pieces, and checks it: that it is whole, and that it belongs to this program and these
/// states. Errors begin with `name`.
Result<SavedState> check_saved(const ByteSource& file, std::string_view name, const Fingerprint& program,
                               std::span<const StateDesc> states);

}  // namespace nibble
