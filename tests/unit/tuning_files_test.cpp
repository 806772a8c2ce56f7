// Tunings in documents: joined, bounded, and found again by calls.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "api/kept_tuning.hpp"
#include "ops/registry.hpp"
#include "plan/variant.hpp"
#include "support/expect.hpp"
#include "support/planning.hpp"

namespace nibble {
namespace {

using namespace test;

/// A row of `product` at a point, or without times between two.
TunedRow point(std::string variant, std::uint64_t rows) {
  return {.row = {.choice = "product",
                  .variant = std::move(variant),
                  .min_rows = rows,
                  .max_rows = rows,
                  .min_width = 64,
                  .max_width = 64,
                  .traits = 5},
          .before = "flat",
          .ops = {"op"},
          .times = {{"flat", 9}, {"tile", 2}}};
}
TunedRow between(std::string variant, std::uint64_t least, std::uint64_t most) {
  TunedRow row = point(std::move(variant), least);
  row.row.max_rows = most;
  row.times.clear();
  return row;
}

Json tuning(const std::string& device, const std::vector<TunedRow>& rows, std::string_view ended = "complete",
            const std::string& nibble = std::string(version())) {
  Json json = to_json(std::span(rows), {device, "d", "e", nibble});
  json["refused"] = std::vector<std::string>{std::string("of ") + std::to_string(rows.size())};
  json["ended"] = ended;
  return json;
}

/// "variant least-most" of each row for a device.
std::vector<std::string> rows_for(const std::string& text, const std::string& device) {
  std::vector<std::string> found;
  const auto rows = tuning_from_json(text);
  EXPECT_TRUE(succeeds(rows));
  if (!rows) return found;
  for (const auto& row : *rows) {
    if (row.on.device == device) found.push_back(fmt::format("{} {}-{}", row.variant, row.min_rows, row.max_rows));
  }
  return found;
}

using Texts = std::vector<std::string>;

TEST(TuningFiles, what_was_not_measured_now_stays) {
  const auto before =
      *merge_tuning({}, tuning("A", {point("tile", 1), point("tile", 4), point("row", 64), between("tile", 1, 4)}));
  const auto after = *merge_tuning(before, tuning("A", {point("flat", 64), point("row", 100)}, "stopped"));
  EXPECT_EQ(rows_for(after, "A"), (Texts{"flat 64-64", "row 100-100", "tile 1-1", "tile 4-4", "tile 1-4"}));
  // What follows from points goes if one that was measured now says something else.
  const auto refuted = *merge_tuning(before, tuning("A", {point("row", 2)}));
  EXPECT_EQ(rows_for(refuted, "A"), (Texts{"row 2-2", "tile 1-1", "tile 4-4", "row 64-64"}));
  const auto confirmed = *merge_tuning(before, tuning("A", {point("tile", 2)}));
  EXPECT_EQ(rows_for(confirmed, "A"), (Texts{"tile 2-2", "tile 1-1", "tile 4-4", "row 64-64", "tile 1-4"}));
}

TEST(TuningFiles, a_stopped_one_leaves_a_complete_one_complete) {
  const TunedOn on{"A", "d", "e", std::string(version())};
  const auto stopped = *merge_tuning({}, tuning("A", {point("tile", 1)}, "stopped"));
  EXPECT_TRUE(was_stopped(stopped, on));
  EXPECT_FALSE(was_stopped(stopped, {"B", "d", "e", on.nibble}));
  const auto complete = *merge_tuning(stopped, tuning("A", {point("tile", 1)}));
  EXPECT_FALSE(was_stopped(complete, on));
  EXPECT_FALSE(was_stopped(*merge_tuning(complete, tuning("A", {point("tile", 2)}, "stopped")), on));
  EXPECT_FALSE(was_stopped("no JSON", on));
}

TEST(TuningFiles, one_of_an_earlier_version_goes_when_its_device_is_measured_again) {
  const auto before = *merge_tunings(Texts{*merge_tuning({}, tuning("A", {point("tile", 1)}, "complete", "0")),
                                           *merge_tuning({}, tuning("B", {point("tile", 1)}, "complete", "0"))});
  const auto after = *merge_tuning(before, tuning("A", {point("row", 2)}));
  EXPECT_EQ(rows_for(after, "A"), Texts{"row 2-2"});
  EXPECT_EQ(tuning_from_json(after)->front().on, (TunedOn{"B", "d", "e", "0"}));
}

TEST(TuningFiles, what_another_version_wrote_is_not_read_but_told) {
  const auto of = [](std::string_view version, std::string_view choice) {
    return fmt::format(R"({{"device": "A", "driver": "d", "engine": "e", "nibble": "{}", "choices": [{}]}})", version,
                       choice);
  };
  constexpr std::string_view kUnread = R"({"name": "product", "best": 7})";
  const auto text = fmt::format(R"({{"tunings": [{}, {}]}})", of("9", kUnread), of("9", "{}"));
  const auto rows = tuning_from_json(text);
  ASSERT_TRUE(succeeds(rows));
  EXPECT_MENTIONS(usable_tuning(*rows, TunedOn{"A", "d", "e", std::string(version())}).word, "Nibble 9, but this is A");
  EXPECT_TRUE(fails_with(tuning_from_json(fmt::format(R"({{"tunings": [{}]}})", of(version(), kUnread))),
                         "choices[0] of the tuning has no choice"));
  // Joined with what is read, it stays as it is; of two the later one counts.
  const auto merged = merge_tunings(Texts{text, *merge_tuning({}, tuning("B", {point("row", 2)}))});
  ASSERT_TRUE(succeeds(merged));
  EXPECT_EQ(rows_for(*merged, "B"), Texts{"row 2-2"});
  EXPECT_EQ(merged->find("best"), std::string::npos);
  EXPECT_EQ(merge_tunings({&*merged, 1}).value_or(""), *merged);
}

TEST(TuningFiles, files_of_several_machines_become_one) {
  const auto a = *merge_tuning({}, tuning("A", {point("tile", 1), point("tile", 2)}));
  const auto b = *merge_tuning({}, tuning("B", {point("row", 1)}));
  const auto a_again = *merge_tuning({}, tuning("A", {point("row", 1)}));
  const auto merged = merge_tunings(Texts{a, b, a_again});
  ASSERT_TRUE(succeeds(merged));
  EXPECT_EQ(rows_for(*merged, "A"), (Texts{"row 1-1", "tile 2-2"}));
  EXPECT_EQ(rows_for(*merged, "B"), Texts{"row 1-1"});
  EXPECT_EQ(merge_tunings(Texts{*merged, *merged}).value_or(""), *merged) << "it can be repeated";
  EXPECT_MENTIONS(*merged, "of 1");
  EXPECT_MENTIONS(*merged, "of 2");
  EXPECT_TRUE(fails_with(merge_tunings(Texts{a, R"({"choices": []})"}), "no list of tunings to add one to"));
  EXPECT_TRUE(fails_with(merge_tunings(Texts{a, "[]"}), "is not a JSON object"));
}

TEST(TuningFiles, a_device_s_rows_stay_few_enough_to_be_read) {
  std::vector<TunedRow> rows;
  for (std::uint64_t i = 0; i < Preferences::kMostRows; ++i) rows.push_back(point("tile", i));
  for (auto& row : rows) row.ops = {};
  const auto full = merge_tuning({}, tuning("A", rows));
  ASSERT_TRUE(succeeds(full));
  const auto after = merge_tuning(*full, tuning("A", {point("row", 1U << 30U)}));
  ASSERT_TRUE(succeeds(after));
  const auto kept = rows_for(*after, "A");
  EXPECT_EQ(kept.size(), Preferences::kMostRows);
  EXPECT_EQ(kept[0], "row 1073741824-1073741824");
}

TEST(TuningFiles, bytes_and_rows_are_bounded) {
  const auto document = [](std::size_t rows) {
    std::string text = R"({"choices": [)";
    for (std::size_t i = 0; i < rows; ++i) text += R"({"choice":"product","variant":"tile"},)";
    text.back() = ']';
    return text + '}';
  };
  EXPECT_TRUE(succeeds(tuning_from_json(document(kMostTuningRows))));
  EXPECT_TRUE(fails_with(tuning_from_json(document(kMostTuningRows + 1)), "the tuning has more than 16384 choices"));
  EXPECT_TRUE(fails_with(tuning_from_json(std::string(kMostTuningBytes + 1, ' ')),
                         "the tuning has 4194305 bytes, but 4194304 are the most"));
  const auto known = all_choices(ops::registry());
  std::vector<TuningRow> rows(Preferences::kMostRows, {"product", "tile"});
  EXPECT_TRUE(succeeds(Preferences::make({.tuning = rows}, known)));
  rows.push_back({"product", "tile"});
  EXPECT_TRUE(fails_with(Preferences::make({.tuning = rows}, known), "more than 4096 rows for the choice 'product'"));
}

TEST(TuningFiles, a_document_has_a_bounded_number_of_tunings) {
  const auto document = [](std::size_t first, std::size_t count) {
    Json list = Json::array();
    for (std::size_t i = first; i < first + count; ++i) list.push_back(tuning(std::to_string(i), {}));
    Json json = Json::object();
    json["tunings"] = std::move(list);
    return json.dump();
  };
  constexpr std::string_view kTooMany = "there are 257 tunings in one document, but 256 are the most";
  const auto full = document(0, kMostTunings);
  EXPECT_TRUE(succeeds(tuning_from_json(full)));
  EXPECT_TRUE(fails_with(tuning_from_json(document(0, kMostTunings + 1)), kTooMany));
  EXPECT_TRUE(succeeds(merge_tunings(Texts{full, full})));
  EXPECT_TRUE(fails_with(merge_tunings(Texts{full, document(kMostTunings, 1)}), kTooMany));
  EXPECT_TRUE(fails_with(merge_tunings(Texts{document(0, kMostTunings + 1)}), kTooMany));
  EXPECT_TRUE(fails_with(merge_tuning(full, tuning("A", {})), kTooMany));
}

TEST(TuningFiles, of_many_refused_variants_the_newest_stay) {
  const auto text = [](int first, int count) {
    Json json = tuning("A", {});
    json["refused"] = Json::array();
    for (int i = first; i < first + count; ++i) json["refused"].push_back(std::to_string(i));
    return *merge_tuning({}, json);
  };
  const auto merged = merge_tunings(Texts{text(0, 100000), text(99000, 1000)});
  ASSERT_TRUE(succeeds(merged));
  const auto json = Json::parse(*merged);
  const auto& refused = *(*tunings_of(*json))[0].find("refused")->as<Json::Array>();
  ASSERT_EQ(refused.size(), 1024U);
  EXPECT_EQ(*refused[0].as<std::string>(), "99000");
  EXPECT_EQ(*refused[1000].as<std::string>(), "0");
}

TEST(TuningFiles, what_a_file_calls_something_is_told_in_one_line_and_not_at_length) {
  EXPECT_EQ(shown("llvmpipe (ü)"), "llvmpipe (ü)");
  EXPECT_EQ(shown("\x1b[2J\r\nnext\x7f"), "?[2J??next?");
  EXPECT_EQ(shown(std::string(80, 'x')), std::string(80, 'x'));
  EXPECT_EQ(shown(std::string(81, 'x')), std::string(80, 'x') + "...");
  EXPECT_EQ(shown(std::string(79, 'x') + "üü"), std::string(79, 'x') + "ü...");
  const std::string name = "\x1b[31m\n" + std::string(1U << 20U, 'x');
  const auto is_fit = [](const std::string& sentence) {
    return sentence.size() < 2000 && sentence.contains("?[31m?xx") && !sentence.contains('\n');
  };
  const TunedOn other{name, name, name, name};
  EXPECT_PRED1(is_fit, usable_tuning({{.on = other}}, TunedOn{"A", "d", "e", "0"}).word);
  const auto known = all_choices(ops::registry());
  EXPECT_PRED1(is_fit, Preferences::make({.tuning = {{name, "tile"}}}, known).error().message);
  EXPECT_PRED1(is_fit, Preferences::make({.variants = {{"product", name}}}, known).error().message);
  EXPECT_PRED1(is_fit, parse_variant(name).error().message);
  Json choices = Json::object();
  choices["choices"] = Json::array();
  choices["choices"].push_back({{"choice", "product"}, {"variant", "tile"}, {name, 1}});
  EXPECT_PRED1(is_fit, tuning_from_json(choices.dump()).error().message);
}

// A comparison of each with each would take an hour.
TEST(TuningFiles, an_object_of_many_names_is_read_in_one_go) {
  std::string text = "{";
  for (int i = 0; i < 60000; ++i) text += fmt::format("\"{}\":0,", i);
  text += R"("7":1,"tunings":[]})";
  ASSERT_LE(text.size(), kMostTuningBytes);
  const auto json = Json::parse(text);
  ASSERT_TRUE(succeeds(json));
  EXPECT_EQ(json->as<Json::Object>()->size(), 60001U);
  EXPECT_EQ(json->find("7")->number(), 0) << "of equal names the first counts";
  EXPECT_TRUE(succeeds(tuning_from_json(text)));
}

TEST(TuningFiles, names_that_come_twice_in_what_comes_twice_are_left_out_too) {
  const auto json =
      Json::parse(R"({"a": 1, "a": {"b": [1], "b": [2, {"c": [3], "c": [4, [5]]}, 6], "d": [7]}, "e": [8]})");
  ASSERT_TRUE(succeeds(json));
  EXPECT_EQ(json->dump(), Json::parse(R"({"a": 1, "e": [8]})")->dump());
}

TEST(TuningFiles, the_first_row_that_fits_counts_however_it_is_found) {
  const auto known = all_choices(ops::registry());
  const Choice& choice = **std::ranges::find(known, "product", &Choice::name);
  const DeviceProfile profile;
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  for (int i = 0; i < 300; ++i) {
    std::vector<TuningRow> rows;
    for (int r = 0; r < 12; ++r) {
      TuningRow row{std::string(choice.name), std::string(choice.variants[below(choice.variants.size())].name)};
      row.min_rows = below(3);
      row.max_rows = row.min_rows + below(2);
      row.min_width = below(2);
      row.max_width = row.min_width + below(2);
      row.min_depth = below(3);
      if (below(2) == 0) row.max_depth = row.min_depth + below(2);
      if (below(3) != 0) row.traits = below(2);
      rows.push_back(row);
    }
    const auto preferences = Preferences::make({.tuning = rows}, known);
    ASSERT_TRUE(succeeds(preferences));
    const Facts facts{.rows = {below(4)}, .width = {below(3)}, .depth = Extent{below(4)}, .traits = below(2)};
    const auto fits = [&](const TuningRow& row) {
      const auto lies = [](const Extent& e, std::uint64_t least, std::uint64_t most) {
        return least <= e.now && e.now <= most;
      };
      return lies(facts.rows, row.min_rows, row.max_rows) && lies(facts.width, row.min_width, row.max_width) &&
             lies(*facts.depth, row.min_depth, row.max_depth) && row.traits.value_or(facts.traits) == facts.traits;
    };
    auto wanted = Preferences().pick(choice, facts, profile);
    for (const auto& row : rows) {
      const auto v = static_cast<std::size_t>(std::ranges::find(choice.variants, row.variant, &Variant::name) -
                                              choice.variants.begin());
      if (!fits(row) || !is_right(choice, v, facts, profile)) continue;
      wanted = v;
      break;
    }
    EXPECT_EQ(preferences->pick(choice, facts, profile), wanted) << i;
  }
}

TEST(TuningFiles, a_program_finds_its_tuning_beside_it) {
  EXPECT_EQ(tuning_beside("a/model.pte"), "a/model.tuning.json");
  EXPECT_EQ(tuning_beside("a.b/model"), "a.b/model.tuning.json");
  const Graph empty;
  Graph other;
  other.values.emplace_back(Null{});
  const auto path = kept_tuning_path(empty, {});
  EXPECT_MENTIONS(path, "tunings");
  EXPECT_NE(path, kept_tuning_path(other, {}));
}

TEST(TuningFiles, with_options_that_change_kernels_it_is_another_one) {
  const Graph graph;
  const auto path = [&](const Options& options) { return kept_tuning_path(graph, options); };
  const std::set<std::string> paths{path({}),
                                    path({.max_shard_bytes = 64}),
                                    path({.max_shard_bytes = 128}),
                                    path({.f16_cache = true}),
                                    path({.without_passes = {"a", "b"}}),
                                    path({.without_passes = {"ab"}}),
                                    path({.variants = {{"product", "tile"}}}),
                                    path({.unchecked = true}),
                                    path({.f16_products = true})};
  EXPECT_EQ(paths.size(), 9U);
  EXPECT_EQ(path({.method = "forward", .tuning = {{"product", "tile"}}, .tune = true, .tune_ms = 9, .staged = true}),
            path({}));
  EXPECT_EQ(path({.f16_products = true, .max_nodes = 9, .max_batch_work = 9}), path({.f16_products = true}));
}

}  // namespace
}  // namespace nibble
