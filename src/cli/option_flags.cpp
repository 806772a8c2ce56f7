#include "cli/option_flags.hpp"

#include <algorithm>
#include <charconv>
#include <functional>

#include "api/tuning_json.hpp"
#include "option_fields.hpp"
#include "plan/tuning.hpp"
#include "program/file.hpp"

namespace nibble::cli {
namespace {

Result<std::vector<TuningRow>> read_tuning(const std::string& path) {
  TRY_ASSIGN(const std::string text, read_text(path));
  auto rows = tuning_from_json(text);
  if (!rows) return fail(rows.error().code, "{}: {}", path, rows.error().message);
  return rows;
}

/// The sentence without its full stop, as all other help texts are.
std::string help(const OptionText& about, std::string_view more = {}) {
  return fmt::format("{}{}", about.text.substr(0, about.text.size() - 1), more);
}

constexpr std::string_view kRepeated = "; once for each";

struct AddFlag {
  CLI::App& command;

  void text(const OptionText& about, std::string& to) const {
    command.add_option(std::string(about.flag), to, help(about))->type_name(std::string(about.value));
  }
  void u64(const OptionText& about, std::uint64_t& to) const {
    // CLI11 takes -1 for the largest number.
    const auto check = [about](const std::string& text) {
      const auto* end = text.data() + text.size();
      std::uint64_t number = 0;
      const auto [stopped, error] = std::from_chars(text.data(), end, number);
      return error == std::errc{} && stopped == end ? "" : fmt::format("{}, not {}", about.must_be, text);
    };
    command.add_option(std::string(about.flag), to, help(about))->check(check)->type_name(std::string(about.value));
  }
  void flag(const OptionText& about, bool& to) const { command.add_flag(std::string(about.flag), to, help(about)); }
  void names(const OptionText& about, std::vector<std::string>& to) const {
    repeated(about, [&to](const std::string& name) { to.push_back(name); });
  }
  void variants(const OptionText& about, std::vector<ForcedVariant>& to) const {
    repeated(about, [&to, about](const std::string& text) {
      auto forced = parse_variant(text);
      if (!forced) throw CLI::ValidationError(std::string(about.flag), forced.error().message);
      to.push_back(std::move(*forced));
    });
  }
  void tuning(const OptionText& about, std::vector<TuningRow>& to) const {
    const auto read = [&to](const std::string& path) {
      auto rows = read_tuning(path);
      if (!rows) throw CLI::FileError(rows.error().message);
      to = std::move(*rows);
    };
    command.add_option_function<std::string>(std::string(about.flag), read, help(about))
        ->type_name(std::string(about.value));
  }

  /// A flag that may be repeated. Calls `take` with each value.
  void repeated(const OptionText& about, const std::function<void(const std::string&)>& take) const {
    const auto take_all = [take](const std::vector<std::string>& texts) { std::ranges::for_each(texts, take); };
    command.add_option_function<std::vector<std::string>>(std::string(about.flag), take_all, help(about, kRepeated))
        ->allow_extra_args(false)
        ->type_name(std::string(about.value));
  }
};

}  // namespace

void add_option_flags(CLI::App& command, Options& to) { visit_options(AddFlag{command}, to); }

}  // namespace nibble::cli
