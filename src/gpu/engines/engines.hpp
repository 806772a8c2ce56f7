// Which engines there are, and where they are found.
#pragma once

#include <utility>

#include "gpu/engines/engine.hpp"

namespace nibble::gpu {

/// Their names, the one that Nibble prefers first: Dawn lives on where a driver fails.
std::span<const std::string_view> engine_names();

/// Sets the path of an engine's library, instead of searching for it. Has no effect once the engine is loaded.
Status set_engine_library(std::string_view engine, std::string path);

/// The functions of Dawn, for programs that have them without a library that exports them.
void set_dawn_functions(std::vector<std::pair<std::string, void*>> functions);
/// Called before Dawn is looked for, to set its functions then and not before.
void set_dawn_provider(void (*provide)());

/// Loads an engine, once; it lives until the process ends. A failed attempt may be repeated.
Result<Engine*> engine(std::string_view name);

/// Those that are loaded.
std::vector<Engine*> loaded_engines();

/// The name that the caller gave, or that of $NIBBLE_ENGINE, or "" for any. An unknown one is an error.
Result<std::string_view> chosen_engine(std::string_view given);

}  // namespace nibble::gpu
