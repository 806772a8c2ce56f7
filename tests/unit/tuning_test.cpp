// What a tuner does without a GPU: which cases there are, who wins, and what becomes of it.
#include <gtest/gtest.h>

#include <set>

#include "api/kept_tuning.hpp"
#include "ops/registry.hpp"
#include "plan/alone.hpp"
#include "plan/tuning_rows.hpp"
#include "support/expect.hpp"
#include "support/planning.hpp"

namespace nibble {
namespace {

using namespace test;
using Sizes = std::vector<std::vector<std::int64_t>>;

/// `layers` 4-bit linears of 64 columns, one behind the other, and the sum of both ends.
struct Linears {
  GraphBuilder b;

  explicit Linears(int layers, std::int64_t most_rows = 100) {
    const auto x = b.input(b.tensor(DType::f32, {most_rows, 64}));
    auto y = x;
    for (int i = 0; i < layers; ++i) {
      const auto weight = b.constant(DType::u8, {64, 32});
      const auto scales = b.constant(DType::f32, {2, 64});
      const auto next = b.tensor(DType::f32, {most_rows, 64});
      b.op("et_vk.linear_q4gsw.default", {y, weight, scales, b.integer(32), b.null(), next});
      y = next;
    }
    b.output(y);
  }

  std::shared_ptr<const Plan> plan(const Options& options = {}) const {
    DeviceProfile profile;
    profile.kind = AdapterKind::cpu;
    return *Plan::make(b.graph, profile, options, ops::registry());
  }
};

const Choice& product_choice() {
  for (const Choice* choice : all_choices(ops::registry())) {
    if (choice->name == "product") return *choice;
  }
  std::abort();
}

std::size_t variant(std::string_view name) {
  const auto& variants = product_choice().variants;
  return static_cast<std::size_t>(std::ranges::find(variants, name, &Variant::name) - variants.begin());
}

TEST(Tuning, sizes_grow_by_twos_and_fours_up_to_the_largest) {
  EXPECT_EQ(size_ladder({}), Sizes{{}});
  EXPECT_EQ(size_ladder(std::vector<std::int64_t>{1}), Sizes{{1}});
  EXPECT_EQ(size_ladder(std::vector<std::int64_t>{100}), (Sizes{{1}, {2}, {4}, {16}, {64}, {100}}));
  EXPECT_EQ(size_ladder(std::vector<std::int64_t>{8, 3}), (Sizes{{1, 1}, {2, 1}, {4, 1}, {8, 2}, {8, 3}}));
  EXPECT_LT(size_ladder(std::vector<std::int64_t>(4, INT64_MAX)).size(), 64U);
}

TEST(Tuning, cases_are_the_choices_of_unlike_nodes_at_all_sizes) {
  const Linears linears(3);
  const auto found = find_cases(linears.plan());
  ASSERT_EQ(found.calls.size(), 6U);
  ASSERT_EQ(found.cases.size(), 6U);
  for (std::size_t i = 0; i < found.cases.size(); ++i) {
    const auto& one = found.cases[i];
    EXPECT_EQ(one.call, i);
    EXPECT_EQ(one.alike, 3U);
    EXPECT_EQ(one.point.choice->name, "product");
    EXPECT_EQ(one.point.width, 64U);
    EXPECT_EQ(one.point.choice->variants[one.variants[0]].name, i < 2 ? "words_row" : "words_tile");
    // All that need no subgroups and no more memory than every device has; splits are for few rows.
    std::set<std::string_view> wrong{"subgroup_row", "subgroup_rows", "tile_128"};
    if (i >= 3) wrong.insert({"split_row", "split_rows"});
    if (i >= 5) wrong.insert("split_tile");
    std::set<std::string_view> right;
    for (const auto& v : product_choice().variants) {
      if (!wrong.contains(v.name)) right.insert(v.name);
    }
    std::set<std::string_view> names;
    for (const auto v : one.variants) names.insert(product_choice().variants[v].name);
    EXPECT_EQ(names, right);
  }
  const auto rows = [&](std::size_t i) { return found.cases[i].point.rows; };
  EXPECT_EQ((std::array{rows(0), rows(1), rows(2), rows(3), rows(4), rows(5)}),
            (std::array<std::uint64_t, 6>{1, 2, 4, 16, 64, 100}));
}

TEST(Tuning, the_search_for_cases_can_be_stopped_at_any_time) {
  static int asked = 0;
  const Linears linears(3);
  const auto plan = linears.plan();
  EXPECT_TRUE(find_cases(plan, [] { return true; }).cases.empty());
  find_cases(plan, [] { return ++asked < 0; });
  const int all = asked;
  ASSERT_GT(all, 6);
  asked = 0;
  // The last two sizes are left out, and it is not asked again.
  static int enough = 0;
  enough = all - 1;
  const auto found = find_cases(plan, [] { return ++asked >= enough; });
  EXPECT_EQ(found.calls.size(), 4U);
  EXPECT_EQ(found.cases.size(), 4U);
  EXPECT_EQ(asked, enough);
}

TEST(Tuning, what_plans_select_comes_first_whatever_says_so) {
  const Linears linears(1, 1);
  const auto found = find_cases(linears.plan({.variants = {{"product", "flat"}}}));
  ASSERT_EQ(found.cases.size(), 1U);
  EXPECT_EQ(found.cases[0].variants.front(), variant("flat"));
}

TEST(Tuning, a_node_alone_has_all_variants_and_needs_nothing_else) {
  const Linears linears(2);
  const auto plan = linears.plan();
  const auto graph = node_alone(*plan, 1);
  EXPECT_EQ(graph.nodes.size(), 1U);
  EXPECT_EQ(graph.inputs.size(), 1U);
  EXPECT_EQ(graph.outputs.size(), 1U);
  const auto alone = Plan::lower(graph, plan->profile(), plan->preferences().with_all(), {}, ops::registry());
  ASSERT_TRUE(succeeds(alone));
  Stepper stepper(*alone);
  for (std::size_t v = 0; v < product_choice().variants.size(); ++v) {
    for (const std::int64_t rows : {100, 1, 7}) {
      stepper.force(&product_choice(), v);
      ASSERT_TRUE(succeeds(stepper.set_shape(0, {rows, 64})));
      ASSERT_TRUE(succeeds(stepper.update()));
      const auto& chosen = stepper.choices(0).front();
      EXPECT_EQ(chosen.variant == v, is_right(product_choice(), v, chosen.facts, plan->profile()));
    }
  }
  stepper.force(nullptr, 0);
  ASSERT_TRUE(succeeds(stepper.update()));
  EXPECT_EQ(stepper.choices(0).front().variant, variant("words_tile"));
}

TEST(Tuning, what_a_node_changes_in_place_comes_out_of_it) {
  for (const bool is_state : {true, false}) {
    GraphBuilder b;
    const auto value = b.input(b.tensor(DType::f32, {1, 4, 2, 8}));
    const auto cache = is_state ? b.constant(DType::f32, {1, 16, 2, 8}) : b.input(b.tensor(DType::f32, {1, 16, 2, 8}));
    const auto start = b.input(b.symint());
    const auto shown = b.tensor(DType::f32, {1, 16, 2, 8});
    b.op("update_cache.default", {value, cache, start, shown});
    b.output(shown);
    const auto plan = Plan::make(b.graph, {}, {}, ops::registry());
    ASSERT_TRUE(succeeds(plan));
    const auto alone = node_alone(**plan, 0);
    EXPECT_EQ(std::ranges::count(alone.inputs, cache), is_state ? 0 : 1) << "a state is set back by itself";
    EXPECT_EQ(std::ranges::count(alone.outputs, cache), 1);
    EXPECT_TRUE(succeeds(plan_alone(**plan, 0, {}, ops::registry())));
  }
}

TEST(Tuning, a_plan_that_nobody_tunes_has_no_more_kernels_than_calls_need) {
  const Linears linears(1, 1);
  const auto plan = linears.plan();
  const auto alone =
      Plan::lower(node_alone(*plan, 0), plan->profile(), plan->preferences().with_all(), {}, ops::registry());
  ASSERT_TRUE(succeeds(alone));
  EXPECT_EQ(plan->layout().pipelines.size(), 1U);
  EXPECT_GT((*alone)->layout().pipelines.size(), 5U);
}

TEST(Tuning, what_wins_is_faster_by_three_percent_in_both_rounds) {
  const auto wins = [](std::vector<std::array<double, 2>> rounds) {
    std::vector<VariantTime> times;
    for (std::size_t i = 0; i < rounds.size(); ++i) times.push_back({i, rounds[i]});
    return winner_of(times);
  };
  EXPECT_EQ(wins({{100, 100}}), 0U);
  EXPECT_EQ(wins({{100, 100}, {100, 100}}), 0U);
  EXPECT_EQ(wins({{100, 100}, {98, 98}}), 0U);
  EXPECT_EQ(wins({{100, 100}, {50, 98}}), 0U);
  EXPECT_EQ(wins({{100, 100}, {96, 96}}), 1U);
  EXPECT_EQ(wins({{100, 100}, {96, 96}, {20, 99}, {90, 90}}), 3U);
  // If rounds differ by more than a tenth, it must be faster in any of its rounds than the first in any.
  EXPECT_EQ(wins({{100, 120}, {96, 96}}), 1U);
  EXPECT_EQ(wins({{100, 120}, {96, 98}}), 0U);
  EXPECT_EQ(wins({{100, 100}, {60, 96}}), 1U);
}

/// A case of the product with 64 columns, and times of its variants.
void add(TuningTimes& to, std::uint64_t rows, std::size_t call, std::vector<VariantTime> times, std::uint32_t node = 0,
         std::size_t alike = 1) {
  TuningCase one{.point = {&product_choice(), 5, rows, 64}, .variants = {}, .node = node, .call = call, .alike = alike};
  to.add(one, "op", std::move(times));
}

/// Of 64 columns, as above.
TuningRow product_row(std::string name, std::uint64_t least, std::uint64_t most) {
  return {.choice = "product",
          .variant = std::move(name),
          .min_rows = least,
          .max_rows = most,
          .min_width = 64,
          .max_width = 64,
          .traits = 5};
}

TEST(Tuning, sizes_between_two_that_a_variant_wins_are_its_own) {
  const auto tile = variant("tile");
  const auto flat = variant("flat");
  const VariantTime slow{flat, {9, 9}};
  TuningTimes times;
  add(times, 1, 0, {slow, {tile, {10, 10}}});
  add(times, 4, 1, {slow, {tile, {2, 2}}});
  add(times, 16, 2, {slow, {tile, {3, 3}}});
  add(times, 64, 3, {slow, {tile, {9, 9}}});
  const auto rows = times.rows();
  ASSERT_EQ(rows.size(), 5U);
  const auto is = [&](std::size_t i, std::string_view name, std::uint64_t least, std::uint64_t most) {
    const auto& row = rows[i].row;
    EXPECT_EQ(row, product_row(std::string(name), least, most)) << i;
  };
  is(0, "flat", 1, 1);
  is(1, "tile", 4, 4);
  is(2, "tile", 16, 16);
  is(3, "flat", 64, 64);
  is(4, "tile", 4, 16);
  EXPECT_EQ(rows[1].before, "flat");
  EXPECT_EQ(rows[1].times, (std::vector<std::pair<std::string, double>>{{"flat", 9}, {"tile", 2}}));
  EXPECT_TRUE(rows[4].times.empty());
}

TEST(Tuning, between_two_positions_and_two_sizes_a_variant_that_wins_at_all_is_chosen) {
  const auto tile = variant("tile");
  TuningTimes times;
  std::size_t call = 0;
  for (const std::uint64_t rows : {1, 4}) {
    std::size_t position = 0;
    for (const std::uint64_t start : {128, 1024, 2000}) {
      TuningCase one{.point = {&product_choice(), 5, rows, 64, start + rows},
                     .variants = {},
                     .node = 0,
                     .call = call++,
                     .position = position++};
      // It does not win at the last position of four rows.
      const double other = rows == 4 && start == 2000 ? 10 : 2;
      times.add(one, "op", {{variant("flat"), {9, 9}}, {tile, {other, other}}});
    }
  }
  const auto rows = times.rows();
  const auto says = [&](std::uint64_t count, std::uint64_t depth) {
    return std::ranges::any_of(rows, [&](const TunedRow& r) {
      return r.row.variant == "tile" && r.row.min_rows <= count && count <= r.row.max_rows &&
             r.row.min_depth <= depth && depth <= r.row.max_depth;
    });
  };
  EXPECT_TRUE(says(1, 129));
  EXPECT_TRUE(says(1, 1700)) << "a line of positions";
  EXPECT_TRUE(says(3, 700)) << "both positions of both sizes";
  EXPECT_TRUE(says(4, 1000));
  EXPECT_FALSE(says(4, 1700));
  EXPECT_FALSE(says(3, 1700));
  EXPECT_FALSE(says(1, 100));
  EXPECT_FALSE(says(1, 2002));
}

TEST(Tuning, a_depth_of_one_is_a_depth_and_none_is_all) {
  TuningTimes times;
  for (const std::optional<std::uint64_t> depth : {std::optional<std::uint64_t>(1), {}}) {
    const TuningCase one{.point = {&product_choice(), 5, 4, 64, depth}, .variants = {}};
    times.add(one, "op", {{variant("flat"), {9, 9}}});
  }
  const auto rows = times.rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].row.min_depth, 1U);
  EXPECT_EQ(rows[0].row.max_depth, 1U);
  EXPECT_EQ(rows[1].row, product_row("flat", 4, 4));
}

TEST(Tuning, nodes_at_one_point_count_together) {
  const auto tile = variant("tile");
  const auto flat = variant("flat");
  TuningTimes times;
  add(times, 4, 0, {{flat, {10, 10}}, {tile, {1, 1}}}, 0, 2);
  add(times, 4, 0, {{flat, {10, 10}}, {tile, {50, 50}}}, 1);
  ASSERT_EQ(times.rows().size(), 1U);
  EXPECT_EQ(times.rows()[0].row.variant, "flat");
  EXPECT_EQ(times.rows()[0].times[1].second, 52);
  // What one of them cannot take is not chosen for the others.
  TuningTimes others;
  add(others, 4, 0, {{flat, {10, 10}}, {tile, {1, 1}}}, 0);
  add(others, 4, 0, {{flat, {10, 10}}}, 1);
  EXPECT_EQ(others.rows()[0].row.variant, "flat");
  EXPECT_EQ(others.rows()[0].times.size(), 1U);
}

TEST(Tuning, a_row_with_traits_is_for_just_these) {
  const Linears linears(1, 8);
  const auto chosen = [&](std::optional<std::uint32_t> traits) {
    TuningRow row{"product", "flat"};
    row.traits = traits;
    Stepper stepper(linears.plan({.tuning = {row}}));
    EXPECT_TRUE(succeeds(stepper.update()));
    return std::pair{stepper.choices(0).front().variant, stepper.choices(0).front().facts.traits};
  };
  const auto [without, traits] = chosen({});
  EXPECT_EQ(without, variant("flat"));
  EXPECT_EQ(chosen(traits).first, variant("flat"));
  EXPECT_EQ(chosen(traits ^ 1U).first, variant("words_tile"));
  EXPECT_EQ(chosen(traits | 1U << 31U).first, variant("words_tile"));
}

DeviceProfile adapter(std::string name) {
  DeviceProfile profile;
  profile.name = std::move(name);
  profile.driver = "1.2";
  profile.engine = "dawn";
  return profile;
}

gpu::Tuned tuned(std::string variant_name) {
  gpu::Tuned made;
  made.rows.push_back({.row = product_row(std::move(variant_name), 4, 16),
                       .before = "flat",
                       .ops = {"op"},
                       .times = {{"flat", 9}, {"tile", 2.505}}});
  made.measured = made.cases = 1;
  return made;
}

std::string document(const std::string& before, const std::string& device, const std::string& variant_name) {
  auto merged = merge_tuning(before, to_json(tuned(variant_name), adapter(device)));
  EXPECT_TRUE(succeeds(merged));
  return merged.value_or("");
}

TEST(Tuning, what_is_written_is_read_again_where_it_was_measured) {
  const auto rows = tuning_from_json(document("", "A", "tile"));
  ASSERT_TRUE(succeeds(rows));
  const auto usable = usable_tuning(*rows, adapter("A"));
  EXPECT_EQ(usable.word, "");
  ASSERT_EQ(usable.rows.size(), 1U);
  EXPECT_EQ(usable.rows[0].on, tuned_on(adapter("A")));
  TuningRow row = usable.rows[0];
  row.on = {};
  EXPECT_EQ(row, tuned("tile").rows[0].row);
}

TEST(Tuning, one_of_another_device_or_version_is_ignored_with_a_word) {
  const auto rows = *tuning_from_json(document("", "A", "tile"));
  const auto other = usable_tuning(rows, adapter("B"));
  EXPECT_TRUE(other.rows.empty());
  EXPECT_EQ(other.word,
            fmt::format("the tuning is ignored: it is for A (1.2, dawn) and Nibble {0}, but this is B (1.2, "
                        "dawn) and Nibble {0}",
                        version()));
  auto profile = adapter("A");
  profile.driver = "1.3";
  EXPECT_FALSE(usable_tuning(rows, profile).word.empty());
  profile = adapter("A");
  profile.engine = "wgpu";
  EXPECT_FALSE(usable_tuning(rows, profile).word.empty());
  auto old = rows;
  old[0].on.nibble = "0.0.1";
  EXPECT_MENTIONS(usable_tuning(old, adapter("A")).word, "Nibble 0.0.1, but this is A");
  // One that says nothing of a device is for all.
  EXPECT_EQ(usable_tuning({{"product", "tile"}}, adapter("B")).rows.size(), 1U);
}

TEST(Tuning, several_devices_share_a_file_and_each_has_one_place) {
  auto text = document("", "A", "tile");
  text = document(text, "B", "row");
  text = document(text, "A", "registers");
  const auto rows = *tuning_from_json(text);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(usable_tuning(rows, adapter("A")).rows[0].variant, "registers");
  EXPECT_EQ(usable_tuning(rows, adapter("B")).rows[0].variant, "row");
}

TEST(Tuning, broken_documents_are_told) {
  const auto says = [](std::string_view text, std::string_view sentence) {
    EXPECT_TRUE(fails_with(tuning_from_json(text), sentence));
    EXPECT_TRUE(fails_with(merge_tuning(text, to_json(tuned("tile"), adapter("A"))), sentence));
  };
  says("[]", "the tuning is not a JSON object");
  says(std::string(100000, '['), "the tuning is not a JSON object");
  says(R"({"tunings": {}})", "the tuning has no list of choices");
  says(R"({"tunings": [7]})", "a tuning does not say for which device it is");
  says(R"({"tunings": [{"device": "A", "driver": 7}]})", "a tuning does not say for which driver it is");
  says(R"({"tunings": [{"device": "A", "driver": "", "engine": "", "nibble": ""}]})", "no list of choices");
  const auto row = [](std::string_view field) {
    return fmt::format(R"({{"choices": [{{"choice": "a", "variant": "b", {}}}]}})", field);
  };
  for (std::string_view traits : {"-1", "[]", "[1, 2]", "\"1\"", "4294967296", "1.5", "null"}) {
    says(row(fmt::format(R"("traits": {})", traits)), "choices[0].traits of the tuning is not a number of 32 bits");
  }
  EXPECT_TRUE(succeeds(tuning_from_json(row(R"("traits": 4294967295, "times": {"b": 1}, "ops": [], "before": "b")"))));
  EXPECT_TRUE(fails_with(merge_tuning(R"({"choices": []})", to_json(tuned("tile"), adapter("A"))),
                         "the tuning has no list of tunings to add one to"));
}

}  // namespace
}  // namespace nibble
