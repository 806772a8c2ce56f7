// Reads and checks what callers say about kernel variants: forced ones, and a tuning.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/status.hpp"
#include "nibble/tuning.hpp"

namespace nibble {

/// Parses a text such as `product=tile`.
Result<ForcedVariant> parse_variant(std::string_view text);

/// A field of a choice in a tuning, from JSON or JavaScript. Only the type of its value is known.
struct WrittenField {
  enum class Kind : std::uint8_t { text, numbers, other };  ///< numbers: a whole number from 0 on, or a list

  std::string_view name = {};
  Kind kind = Kind::other;
  std::string_view text = {};
  std::size_t count = 0;                      ///< how many numbers there are
  std::array<std::uint64_t, 2> numbers = {};  ///< the first two
};

/// Reads choices[index] of a tuning; `fields` is nullopt if that is not an object. A missing range means all sizes.
/// Unknown fields are errors.
Result<TuningRow> read_choice(std::size_t index, std::optional<std::span<const WrittenField>> fields);

/// The error for a tuning that has no list named "choices".
Error no_choices();

/// What a tuning says it was measured on, by the names of the fields.
inline constexpr std::array kTunedOn = {std::pair{"device", &TunedOn::device}, std::pair{"driver", &TunedOn::driver},
                                        std::pair{"engine", &TunedOn::engine}, std::pair{"nibble", &TunedOn::nibble}};

/// Reads these fields, of which each is a text; others are ignored.
Result<TunedOn> read_tuned_on(std::span<const WrittenField> fields);

/// Of rows that were read, those for this device and this Nibble. If there are some but none is for it, `word` is a
/// sentence that says so.
struct UsableTuning {
  std::vector<TuningRow> rows;
  std::string word;
};
UsableTuning usable_tuning(std::vector<TuningRow> rows, const TunedOn& here);

/// Checks the ranges of a tuning, wherever it comes from. Does not check whether its names exist.
Status check_tuning(std::span<const TuningRow> rows);

}  // namespace nibble
