// A tuning as JSON: {"choices": [{"choice": "product", "variant": "tile", "rows": [5, 64], "width": [0, 4096]}]} for
// any device, or what a tuner wrote, for several: {"tunings": [{"device", "driver", "engine", "nibble", "choices",
// …}]}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/json.hpp"
#include "nibble/tuning.hpp"
#include "plan/tuning.hpp"
#include "plan/tuning_rows.hpp"

namespace nibble {

/// Bounds of a document, which may be somebody else's.
constexpr std::size_t kMostTuningBytes = std::size_t{4} << 20;
constexpr std::size_t kMostTuningRows = 16384;
constexpr std::size_t kMostTunings = 256;
Status check_tuning_count(std::size_t count);

/// Reads each choice with read_choice(). Other fields next to "choices" are ignored. A tuning of another version is not
/// read, since that may have other fields: it gives one row that only says for what it is.
Result<std::vector<TuningRow>> tuning_from_json(std::string_view text);
bool is_of_this_version(const TunedOn& on);

/// What a device is, for a tuning.
TunedOn tuned_on(const DeviceProfile& profile);

/// One of "tunings".
Json to_json(std::span<const TunedRow> rows, const TunedOn& on);

/// What it was measured on; an error if a tuning does not say so.
Result<TunedOn> tuned_on(const Json& tuning);
/// Its choices, in their order.
Result<std::vector<TuningRow>> rows_of(const Json& tuning);
/// The list of "tunings" of a document, null if it has none.
Result<Json> parse_tuning(std::string_view text);
const Json::Array* tunings_of(const Json& document);

UsableTuning usable_tuning(std::vector<TuningRow> rows, const DeviceProfile& profile);

}  // namespace nibble
