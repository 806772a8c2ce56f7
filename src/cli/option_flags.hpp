// The options of programs as flags of a command.
#pragma once

#include <CLI/CLI.hpp>

#include "nibble/options.hpp"

namespace nibble::cli {

/// Every option of the description. `to` must outlive the command. A file that cannot be read is a CLI::FileError, any
/// other mistake wrong usage.
void add_option_flags(CLI::App& command, Options& to);

}  // namespace nibble::cli
