// One description of the options: each of them arrives from C and from the command line.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <ranges>

#include "api/c_options.hpp"
#include "api/tuning_json.hpp"
#include "cli/option_flags.hpp"
#include "ops/registry.hpp"
#include "option_fields.hpp"
#include "plan/stepper.hpp"
#include "plan/tuning.hpp"
#include "support/expect.hpp"

namespace nibble {
namespace {

using namespace test;

constexpr const char* kTuning =
    R"({"device": "any", "choices": [{"choice": "product", "variant": "tile", "rows": [5, 64], "width": [0, 4096]},
        {"choice": "attention", "variant": "row"}]})";

const std::vector<TuningRow> kRows = {{"product", "tile", 5, 64, 0, 4096}, {"attention", "row"}};

/// A visitor: a value for each type of option, none of them a default.
struct Fill {
  void text(const OptionText&, std::string& to) const { to = "encode"; }
  void u64(const OptionText&, std::uint64_t& to) const { to = 1ULL << 40; }
  void flag(const OptionText&, bool& to) const { to = true; }
  void names(const OptionText&, std::vector<std::string>& to) const { to = {"views", "gate_up"}; }
  void variants(const OptionText&, std::vector<ForcedVariant>& to) const {
    to = {{"product", "tile"}, {"attention", "row"}};
  }
  void tuning(const OptionText&, std::vector<TuningRow>& to) const { to = kRows; }
};

/// A visitor: every option as one text, so that a field that is lost shows.
struct Print {
  std::string& out;

  void text(const OptionText& about, const std::string& from) const { add(about, from); }
  void u64(const OptionText& about, std::uint64_t from) const { add(about, from); }
  void flag(const OptionText& about, bool from) const { add(about, from); }
  void names(const OptionText& about, const std::vector<std::string>& from) const {
    add(about, fmt::format("{}", fmt::join(from, " ")));
  }
  void variants(const OptionText& about, const std::vector<ForcedVariant>& from) const {
    for (const auto& [choice, variant] : from) add(about, fmt::format("{} {}", choice, variant));
  }
  void tuning(const OptionText& about, const std::vector<TuningRow>& from) const {
    for (const auto& row : from) {
      add(about, fmt::format("{} {} {}-{} {}-{}", row.choice, row.variant, row.min_rows, row.max_rows, row.min_width,
                             row.max_width));
    }
  }

  template <class T>
  void add(const OptionText& about, const T& value) const {
    fmt::format_to(std::back_inserter(out), "{}: {}\n", about.name, value);
  }
};

std::string print(const Options& options) {
  std::string text;
  visit_options(Print{text}, options);
  return text;
}

Options all_options() {
  Options options;
  visit_options(Fill{}, options);
  return options;
}

/// A file with the tuning, gone with the test.
class TuningFile {
 public:
  explicit TuningFile(std::string_view text) { std::ofstream(path_) << text; }
  TuningFile(const TuningFile&) = delete;
  TuningFile& operator=(const TuningFile&) = delete;
  ~TuningFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("nibble_tuning_" + std::to_string(getpid()) + ".json");
};

/// A visitor: the arguments that say the same as Fill.
struct Arguments {
  std::vector<std::string>& out;
  std::string tuning_file;

  void text(const OptionText& about, const std::string& from) const { add(about, from); }
  void u64(const OptionText& about, std::uint64_t from) const { add(about, std::to_string(from)); }
  void flag(const OptionText& about, bool) const { out.emplace_back(about.flag); }
  void names(const OptionText& about, const std::vector<std::string>& from) const {
    for (const auto& name : from) add(about, name);
  }
  void variants(const OptionText& about, const std::vector<ForcedVariant>& from) const {
    for (const auto& [choice, variant] : from) add(about, fmt::format("{}={}", choice, variant));
  }
  void tuning(const OptionText& about, const std::vector<TuningRow>&) const { add(about, tuning_file); }

  void add(const OptionText& about, const std::string& value) const {
    out.emplace_back(about.flag);
    out.push_back(value);
  }
};

/// What the command line makes of arguments, or its complaint.
Result<Options> parse(std::vector<std::string> arguments) {
  Options options;
  CLI::App app;
  cli::add_option_flags(app, options);
  std::ranges::reverse(arguments);
  try {
    app.parse(arguments);
  } catch (const CLI::FileError& error) {
    return fail(ErrorCode::io, "{}", error.what());
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::invalid_argument, "{}", error.what());
  }
  return options;
}

TEST(Options, no_value_of_these_tests_is_a_default) {
  const std::string defaults = print({});
  for (const auto line : std::views::split(print(all_options()), '\n')) {
    const std::string_view text(line.begin(), line.end());
    EXPECT_TRUE(text.empty() || defaults.find(text) == std::string::npos) << text;
  }
}

TEST(Options, every_one_comes_from_c) {
  const nibble_load_options given{.method = "encode",
                                  .max_shard_bytes = 1ULL << 40,
                                  .f16_cache = 1,
                                  .candidates = 1ULL << 40,
                                  .without_passes = "views,gate_up",
                                  .variants = "product=tile,,attention=row,",
                                  .tuning = kTuning,
                                  .tune = 1,
                                  .tune_ms = 1ULL << 40,
                                  .staged = 1,
                                  .unchecked = 1,
                                  .f16_products = 1,
                                  .max_device_bytes = 1ULL << 40,
                                  .max_host_bytes = 1ULL << 40,
                                  .max_nodes = 1ULL << 40,
                                  .max_dispatches = 1ULL << 40,
                                  .max_batch_work = 1ULL << 40,
                                  .progress = nullptr,
                                  .user = nullptr,
                                  .tuning_progress = nullptr};
  const auto options = options_from_c(given);
  ASSERT_TRUE(succeeds(options));
  EXPECT_EQ(print(*options), print(all_options()));
}

TEST(Options, zero_in_c_is_the_default) {
  const auto options = options_from_c({});
  ASSERT_TRUE(succeeds(options));
  EXPECT_EQ(print(*options), print({}));
}

TEST(Options, a_broken_tuning_in_c_is_told) {
  nibble_load_options given{};
  for (const char* text : {"", "{"}) {
    given.tuning = text;
    EXPECT_TRUE(fails_with(options_from_c(given), "the tuning is not a JSON object"));
  }
}

TEST(Options, a_text_in_c_that_forces_no_variant_is_told) {
  nibble_load_options given{};
  given.variants = "product=tile,tile";
  EXPECT_TRUE(fails_with(options_from_c(given), "'tile' forces no variant; it must look like product=tile"));
}

TEST(Options, every_one_comes_from_the_command_line) {
  const TuningFile file(kTuning);
  const Options wanted = all_options();
  std::vector<std::string> arguments;
  visit_options(Arguments{arguments, file.path()}, wanted);
  const auto options = parse(arguments);
  ASSERT_TRUE(succeeds(options));
  EXPECT_EQ(print(*options), print(wanted));
}

TEST(Options, no_flags_are_the_defaults) {
  const auto options = parse({});
  ASSERT_TRUE(succeeds(options));
  EXPECT_EQ(print(*options), print({}));
}

TEST(Options, wrong_flags_are_told) {
  EXPECT_TRUE(fails_with(parse({"--variant", "tile"}), "'tile' forces no variant; it must look like product=tile"));
  EXPECT_TRUE(
      fails_with(parse({"--max-shard-bytes", "-1"}), "--max-shard-bytes: must be a whole number from 0 on, not -1"));
  EXPECT_TRUE(fails_with(parse({"--max-shard-bytes", "18446744073709551616"}), "not 18446744073709551616"));
  EXPECT_TRUE(fails_with(parse({"--tuning", "/nowhere.json"}), "'/nowhere.json' cannot be opened"));
  const TuningFile file("[]");
  const auto broken = parse({"--tuning", file.path()});
  EXPECT_TRUE(fails_with(broken, file.path() + ": the tuning is not a JSON object"));
  EXPECT_EQ(broken.error().code, ErrorCode::io);
}

TEST(Options, variants_are_a_choice_and_a_variant) {
  const auto forced = parse_variant("product=tile");
  ASSERT_TRUE(succeeds(forced));
  EXPECT_EQ(forced->choice, "product");
  EXPECT_EQ(forced->variant, "tile");
  for (std::string_view text : {"", "=", "product", "product=", "=tile", "product=tile=2"}) {
    EXPECT_TRUE(fails_with(parse_variant(text), fmt::format("'{}' forces no variant", text)));
  }
}

TEST(Options, planning_refuses_what_is_no_variant_and_no_range) {
  const auto plan = [](const Options& options) { return Plan::make({}, {}, options, ops::registry()); };
  EXPECT_TRUE(fails_with(plan({.variants = {{"product", "tile"}, {"product", ""}}}),
                         "the choice 'product' has no variant ''; the variants are "));
  EXPECT_TRUE(fails_with(plan({.variants = {{"", "tile"}}}), "there is no choice '' between kernels"));
  EXPECT_TRUE(
      fails_with(plan({.tuning = {{"a", "b"}, {"a", "b", 7, 6}}}), "choices[1] of the tuning is for rows from 7 to 6"));
  EXPECT_TRUE(fails_with(plan({.tuning = {{"a", "b", 6, 6, 2, 1}}}), "choices[0] of the tuning is for widths from 2"));
}

TEST(Options, a_tuning_is_read_from_json) {
  const auto rows = tuning_from_json(kTuning);
  ASSERT_TRUE(succeeds(rows));
  EXPECT_EQ(*rows, kRows);
  const auto none = tuning_from_json(R"({"choices": []})");
  ASSERT_TRUE(succeeds(none));
  EXPECT_TRUE(none->empty());
}

TEST(Options, a_broken_tuning_is_told_by_row_and_field) {
  const auto says = [](std::string_view choices, std::string_view sentence) {
    const auto text = fmt::format(R"({{"choices": [{{"choice": "a", "variant": "b"}}, {}]}})", choices);
    EXPECT_TRUE(fails_with(tuning_from_json(text), std::string(sentence)));
  };
  says("7", "choices[1] of the tuning is not an object");
  says(R"({"variant": "b"})", "choices[1] of the tuning has no choice");
  says(R"({"choice": "a"})", "choices[1] of the tuning has no variant");
  says(R"({"choice": 3, "variant": "b"})", "choices[1].choice of the tuning is not a text");
  for (std::string_view range : {"5", "[]", "[1]", "[1, 2, 3]", "[-1, 2]", "[1, 2.5]", "[1, \"2\"]", "null"}) {
    says(fmt::format(R"({{"choice": "a", "variant": "b", "width": {}}})", range),
         "choices[1].width of the tuning is not two whole numbers from 0 on");
  }
  says(R"({"choice": "a", "variant": "b", "row": [1, 2]})",
       "choices[1] of the tuning has the unknown field 'row'; the fields are choice, variant, rows, width, depth and "
       "traits");
  for (std::string_view text : {"", "[]", "{\"choices\": [", "null"}) {
    EXPECT_TRUE(fails_with(tuning_from_json(text), "the tuning is not a JSON object"));
  }
  for (std::string_view text : {"{}", R"({"choices": {}})"}) {
    EXPECT_TRUE(fails_with(tuning_from_json(text), "the tuning has no list of choices"));
  }
}

}  // namespace
}  // namespace nibble
