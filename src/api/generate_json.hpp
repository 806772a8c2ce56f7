// Options and figures of generation as JSON, for the C API.
#pragma once

#include "api/json.hpp"
#include "nibble/generate.hpp"

namespace nibble {

/// An object of the names in GenerateOptions; `logit_bias` is a list of [token, bias]. Missing ones have their
/// defaults.
Result<GenerateOptions> generate_options(std::string_view json);
Json to_json(const LanguageModelInfo& info);
Json to_json(const GenerateStats& stats);

}  // namespace nibble
