#include "api/kept_tuning.hpp"

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "api/fingerprint.hpp"
#include "gpu/stop.hpp"
#include "ops/registry.hpp"
#include "option_fields.hpp"
#include "program/file.hpp"

namespace nibble {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kGpuMs = 1500;
constexpr std::uint64_t kCpuMs = 15000;
constexpr std::array<std::string_view, 3> kEnded = {"complete", "out of time", "stopped"};  ///< by Tuned::Ended

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

fs::path cache_folder() {
  if (const auto own = variable("NIBBLE_CACHE"); !own.empty()) return own;
  if (const fs::path general = variable("XDG_CACHE_HOME"); general.is_absolute()) return general / "nibble";
  const fs::path home = variable("HOME");
  return home.is_absolute() ? home / ".cache" / "nibble" : fs::path();
}

enum class Wish : std::uint8_t { nothing, what_is_kept, measured };

/// $NIBBLE_TUNE: 1 to measure what was not, 0 to use nothing that is kept.
Result<Wish> wish_of(const Options& options) {
  const auto said = variable("NIBBLE_TUNE");
  if (!said.empty() && said != "0" && said != "1") {
    return fail(ErrorCode::invalid_argument, "$NIBBLE_TUNE is '{}', but it must be 0 or 1", said);
  }
  if (options.tune || said == "1") return Wish::measured;
  return said == "0" ? Wish::nothing : Wish::what_is_kept;
}

/// The options that kernels depend on and that are not at their defaults, one a line.
struct KernelOptions {
  std::string lines = {};

  void text(const OptionText& about, const std::string& value) { add(about, value); }
  void u64(const OptionText& about, std::uint64_t value) { add(about, value != 0 ? std::to_string(value) : ""); }
  void flag(const OptionText& about, bool value) { add(about, value ? "true" : ""); }
  void names(const OptionText& about, const std::vector<std::string>& values) {
    for (const auto& value : values) add(about, value);
  }
  void variants(const OptionText& about, const std::vector<ForcedVariant>& values) {
    for (const auto& value : values) add(about, value.choice + '=' + value.variant);
  }
  void tuning(const OptionText&, const std::vector<TuningRow>&) {}

 private:
  void add(const OptionText& about, std::string_view value) {
    if (about.kernels && !value.empty()) lines += fmt::format("{}={}\n", about.name, value);
  }
};

/// What a kept file says for a device. Nobody asked for it, so what is wrong with it is only said.
struct Kept {
  std::vector<TuningRow> rows = {};
  bool is_stopped = false;
};

Kept read_kept(const std::string& path, const DeviceProfile& profile, std::vector<std::string>& notes) {
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) return {};
  auto text = read_text(path, kMostTuningBytes);
  if (!text) {
    notes.push_back(text.error().message);
    return {};
  }
  auto rows = tuning_from_json(*text);
  auto usable = rows ? usable_tuning(std::move(*rows), profile) : UsableTuning{{}, rows.error().message};
  // Rows for other devices may have what this version does not know, and as many of it as they want.
  if (const auto known = Preferences::make({.tuning = usable.rows}, all_choices(ops::registry())); !known) {
    usable = {{}, known.error().message};
  }
  if (!usable.word.empty()) notes.push_back(fmt::format("{}: {}", path, usable.word));
  return {std::move(usable.rows), was_stopped(*text, tuned_on(profile))};
}

}  // namespace

std::string tuning_beside(const std::string& program) {
  const std::string_view stem(program);
  return fmt::format("{}.tuning.json", stem.ends_with(".pte") ? stem.substr(0, stem.size() - 4) : stem);
}

std::string kept_tuning_path(const Graph& graph, const Options& options) {
  const auto folder = cache_folder();
  if (folder.empty()) return "";
  KernelOptions others;
  visit_options(others, options);
  PlaceHash hash;
  hash.add(0, std::as_bytes(std::span(others.lines)));
  const auto suffix = others.lines.empty() ? "" : fmt::format("-{:016x}", hash.sum());
  return (folder / "tunings" / fmt::format("{:016x}{}.json", structure_of(graph), suffix)).string();
}

Json to_json(const gpu::Tuned& tuned, const DeviceProfile& profile) {
  Json json = to_json(std::span(tuned.rows), tuned_on(profile));
  json["milliseconds"] = std::round(tuned.milliseconds);
  json["cases"] = tuned.cases;
  json["measured"] = tuned.measured;
  json["refused"] = tuned.refused;
  json["ended"] = kEnded[static_cast<std::size_t>(tuned.ended)];
  return json;
}

Result<gpu::Tuned> measure_tuning(const std::shared_ptr<gpu::Device>& device, const Graph& graph,
                                  ConstantSource& source, const Options& options, const gpu::Progress& progress) {
  const auto registry = ops::registry();
  Options unforced = options;
  unforced.variants.clear();  // what is forced is neither what the table prefers nor faster than that
  TRY_ASSIGN(const auto plan, Plan::make(graph, device->profile(), unforced, registry, gpu::is_stop_wanted));
  const auto usual = device->profile().kind == AdapterKind::cpu ? kCpuMs : kGpuMs;
  return gpu::tune(device, plan, unforced, registry, source, options.tune_ms != 0 ? options.tune_ms : usual, progress);
}

Result<std::vector<TuningRow>> tuning_of_load(const std::shared_ptr<gpu::Device>& device, const Graph& graph,
                                              ConstantSource& source, const LoadOptions& options,
                                              const std::string& program, std::vector<std::string>& notes) {
  const auto& profile = device->profile();
  TRY_ASSIGN(const auto wish, wish_of(options));
  auto given = usable_tuning(options.tuning, profile);
  if (!given.word.empty()) notes.push_back(given.word);
  if (!given.rows.empty() || wish == Wish::nothing) return std::move(given.rows);
  const auto kept = kept_tuning_path(graph, options);
  for (const auto& path : {program.empty() ? program : tuning_beside(program), kept}) {
    auto [rows, is_stopped] = read_kept(path, profile, notes);
    if (!rows.empty() && (!is_stopped || wish != Wish::measured)) return std::move(rows);
  }
  if (wish != Wish::measured) return std::vector<TuningRow>{};

  Options planned = options;
  planned.tuning.clear();  // nothing of it is for this device
  TRY_ASSIGN(auto tuned, measure_tuning(device, graph, source, planned, options.on_tuning));
  notes.insert(notes.end(), tuned.refused.begin(), tuned.refused.end());
  // A program runs as well where nothing can be kept.
  const bool is_worth_it = !kept.empty() && (!tuned.rows.empty() || tuned.ended == gpu::Tuned::Ended::complete);
  if (auto status = is_worth_it ? keep_tuning(kept, to_json(tuned, profile), IfDamaged::replace) : Status{}; !status) {
    notes.push_back(status.error().message);
  }
  TRY(gpu::check_stop_of_load());
  std::vector<TuningRow> rows;
  rows.reserve(tuned.rows.size());
  for (auto& row : tuned.rows) rows.push_back(std::move(row.row));
  return rows;
}

}  // namespace nibble
