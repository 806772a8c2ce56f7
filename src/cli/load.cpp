#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.hpp"
#include "cli/progress.hpp"

namespace nibble::cli {

void say_notes(std::span<const std::string> notes) {
  for (const auto& note : notes) std::fputs(fmt::format("nibble: {}\n", note).c_str(), stderr);
}

Result<Model> load_shown(const Device& device, const ModelOptions& options) {
  Progress progress;
  Progress tuning(Progress::Of::tuning);
  TRY_ASSIGN(Model model, Model::load(device, options.model, {options, progress.callback(), tuning.callback()}));
  tuning.clear();
  progress.clear();
  say_notes(model.notes());
  return model;
}

}  // namespace nibble::cli
