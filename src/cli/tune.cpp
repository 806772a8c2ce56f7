#include "api/tuning_merge.hpp"
#include "cli/commands.hpp"
#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "cli/table.hpp"

namespace nibble::cli {
namespace {

/// "64", or "16-64".
std::string range_of(const Json* range) {
  const auto* ends = range != nullptr ? range->as<Json::Array>() : nullptr;
  if (ends == nullptr || ends->size() != 2) return "";
  const auto low = (*ends)[0].number().value_or(0);
  const auto high = (*ends)[1].number().value_or(0);
  return low == high ? fmt::format("{:.0f}", low) : fmt::format("{:.0f}-{:.0f}", low, high);
}

std::string text_of(const Json& json, std::string_view name) {
  const Json* field = json.find(name);
  const auto* text = field != nullptr ? field->as<std::string>() : nullptr;
  return text != nullptr ? *text : "";
}

std::optional<double> number_of(const Json& json, std::string_view name) {
  const Json* field = json.find(name);
  return field != nullptr ? field->number() : std::nullopt;
}

/// What was measured; rows that follow from others have no times.
std::string print_times(const Json& tuning) {
  Table table("lrrllr");
  table.row({"choice", "rows", "width", "before", "best", "time"});
  for (const auto& row : *tuning.find("choices")->as<Json::Array>()) {
    const Json* times = row.find("times");
    if (times == nullptr) continue;
    const auto before = number_of(*times, text_of(row, "before"));
    const auto best = number_of(*times, text_of(row, "variant"));
    table.row({text_of(row, "choice"), range_of(row.find("rows")), range_of(row.find("width")), text_of(row, "before"),
               text_of(row, "variant"), before && best ? fmt::format("{:.2f}", *best / std::max(*before, 1e-9)) : ""});
  }
  return table.text("  ");
}

void print_tuning(const std::string& model, const Json& tuning) {
  print(fmt::format("{} on {}: {:.0f} of {:.0f} cases in {:.0f} ms\n", model, text_of(tuning, "device"),
                    number_of(tuning, "measured").value_or(0), number_of(tuning, "cases").value_or(0),
                    number_of(tuning, "milliseconds").value_or(0)));
  print(print_times(tuning));
  std::vector<std::string> notes;
  for (const auto& sentence : *tuning.find("refused")->as<Json::Array>()) notes.push_back(*sentence.as<std::string>());
  say_notes(notes);
}

}  // namespace

Status tune_command(const TuneCommandOptions& options) {
  if (!options.merge.empty()) return merge_files(options.output, options.merge);
  if (!options.output.empty() && options.models.size() != 1) {
    return fail(ErrorCode::invalid_argument, "--output takes the tuning of one model, but {} are given",
                options.models.size());
  }
  const StopAtInterrupt stop;
  TRY_ASSIGN(const Device device, Device::open(options.device, options.engine));
  for (const auto& model : options.models) {
    Progress progress(Progress::Of::tuning);
    TuneOptions given = options;
    given.on_progress = progress.callback();
    TRY_ASSIGN(const auto text, tune(device, model, given));
    progress.clear();
    TRY_ASSIGN(const Json document, Json::parse(text));
    if (options.json) {
      print(document.dump() + '\n');
    } else {
      print_tuning(model, document.find("tunings")->as<Json::Array>()->front());
    }
  }
  return {};
}

}  // namespace nibble::cli
