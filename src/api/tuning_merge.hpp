// Several tunings in one document: of one device, of several, of several machines.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "api/json.hpp"
#include "nibble/tuning.hpp"

namespace nibble {

/// A document with a tuning added. With one of the same device, driver, engine and version it is joined: what was
/// measured now replaces what was measured at the same point before, and all other rows stay. One of another version is
/// of no use any more, and goes. `text` is that of a document with "tunings", or empty.
Result<std::string> merge_tuning(std::string_view text, Json tuning);

/// One document of several, in which later ones count more. Tunings of other devices and versions lie side by side.
Result<std::string> merge_tunings(std::span<const std::string> texts);

/// What becomes of a file to which no tuning can be added. One that is our own may be replaced.
enum class IfDamaged : std::uint8_t { fail, replace };

/// Adds a tuning to a file, which is made if there is none.
Status keep_tuning(const std::string& path, const Json& tuning, IfDamaged if_damaged);
/// Whether that is going to succeed, as far as can be told before there is a tuning.
Status check_keeping(const std::string& path, IfDamaged if_damaged);
/// Adds the tunings of other files to a file, which is made if there is none.
Status merge_files(const std::string& path, std::span<const std::string> others);

/// Whether a document's tuning of this device and version was stopped before its end.
bool was_stopped(std::string_view text, const TunedOn& on);

}  // namespace nibble
