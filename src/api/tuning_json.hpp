// A tuning as JSON: {"choices": [{"choice": "product", "variant": "tile", "rows": [5, 64], "width": [0, 4096]}]} for
// any device, or what a tuner wrote, for several: {"tunings": [{"device", "driver", "engine", "nibble", "choices",
// …}]}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/json.hpp"
#include "nibble/tuning.hpp"
#include "plan/tuning_rows.hpp"

namespace nibble {

/// Reads each choice with read_choice(). Other fields next to "choices" are ignored.
Result<std::vector<TuningRow>> tuning_from_json(std::string_view text);

/// What a device is, for a tuning.
TunedOn tuned_on(const DeviceProfile& profile);

/// One of "tunings".
Json to_json(std::span<const TunedRow> rows, const TunedOn& on);

/// A document with a tuning added, in place of one of the same device, driver and engine. `text` is that of a document
/// with "tunings", or empty.
Result<std::string> merge_tuning(std::string_view text, Json tuning);

/// Of rows that were read, those for this device and this Nibble. If there are some but none is for it, `word` is a
/// sentence that says so.
struct UsableTuning {
  std::vector<TuningRow> rows;
  std::string word;
};
UsableTuning usable_tuning(std::vector<TuningRow> rows, const DeviceProfile& profile);

}  // namespace nibble
