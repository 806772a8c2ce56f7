// Loads that measure variants: what they keep, find again and leave alone.
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "api/kept_tuning.hpp"
#include "gpu_fixture.hpp"
#include "stop_checks.hpp"
#include "support/planning.hpp"
#include "support/pte_builder.hpp"

namespace nibble::test {
namespace {

constexpr std::uint64_t kLongest = 600000;  // milliseconds: nothing here takes that long

/// A folder for one test, as the user's cache.
class Folder {
 public:
  Folder() {
    std::filesystem::create_directories(path_);
    setenv("NIBBLE_CACHE", path_.c_str(), 1);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    unsetenv("NIBBLE_CACHE");
    unsetenv("NIBBLE_TUNE");
    std::filesystem::remove_all(path_);
  }
  std::string operator/(std::string_view name) const { return path_ / name; }
  std::vector<std::string> kept() const {
    std::vector<std::string> files;
    std::error_code error;
    for (const auto& one : std::filesystem::directory_iterator(path_ / "tunings", error)) files.push_back(one.path());
    return files;
  }

 private:
  std::filesystem::path path_ = std::filesystem::temp_directory_path() / fmt::format("nibble_tuner_{}", getpid());
};

class TunedLoadTest : public GpuTest {
 protected:
  TunedLoadTest() {
    const Bytes bytes = write_pte(describe(embedding(), {.dynamic = true}));
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  /// Loads the program and checks what it gives.
  std::vector<std::string> load(const Options& options = {}) {
    const auto model = Model::load(device, path, {options, {}});
    EXPECT_TRUE(succeeds(model));
    if (!model) return {};
    const std::vector<std::int32_t> ids{1, 2, 3, 49, 0, 7};
    const HostTensor in = tensor(DType::i32, {2, 3}, ids);
    const auto out = model->run({&in, 1});
    EXPECT_TRUE(succeeds(out));
    if (out) {
      const auto got = out->front().as<float>();
      EXPECT_TRUE(are_rows(std::vector(got.begin(), got.end()), ids));
    }
    return model->notes();
  }
  static std::string read(const std::string& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  /// The sizes at which something was measured, in order.
  static std::vector<std::string> points_in(const std::string& tuning) {
    const auto rows = tuning_from_json(tuning);
    const auto json = Json::parse(tuning);
    EXPECT_TRUE(succeeds(rows) && succeeds(json));
    std::vector<std::string> points;
    if (!rows || !json) return points;
    const auto& choices = *(*json->find("tunings")->as<Json::Array>())[0].find("choices")->as<Json::Array>();
    EXPECT_EQ(choices.size(), rows->size());
    for (std::size_t i = 0; i < std::min(choices.size(), rows->size()); ++i) {
      const auto& row = (*rows)[i];
      if (choices[i].find("times") != nullptr)
        points.push_back(fmt::format("{} {} {} {}", row.choice, row.min_rows, row.min_width, row.min_depth));
    }
    std::ranges::sort(points);
    return points;
  }

  Folder folder;
  std::string path = folder / "model.pte";
};

TEST_F(TunedLoadTest, a_load_measures_once_and_then_finds_what_is_kept) {
  EXPECT_TRUE(load().empty());
  EXPECT_TRUE(folder.kept().empty());
  EXPECT_TRUE(load({.tune = true, .tune_ms = kLongest}).empty());
  ASSERT_EQ(folder.kept().size(), 1U);
  const auto text = read(folder.kept()[0]);
  EXPECT_FALSE(tuning_from_json(text)->empty());
  EXPECT_TRUE(load({.tune = true}).empty());
  EXPECT_EQ(read(folder.kept()[0]), text);
}

TEST_F(TunedLoadTest, the_variable_asks_for_all_loads) {
  setenv("NIBBLE_TUNE", "1", 1);
  EXPECT_TRUE(load().empty());
  EXPECT_EQ(folder.kept().size(), 1U);
  setenv("NIBBLE_TUNE", "yes", 1);
  EXPECT_TRUE(fails_with(Model::load(device, path), "$NIBBLE_TUNE is 'yes', but it must be 0 or 1"));
}

TEST_F(TunedLoadTest, tuning_gives_json_that_a_load_takes) {
  const auto text = nibble::tune(device, path, {{.tune_ms = kLongest}, folder / "model.tuning.json", {}});
  ASSERT_TRUE(succeeds(text));
  EXPECT_TRUE(folder.kept().empty());
  EXPECT_EQ(read(folder / "model.tuning.json"), *text);
  EXPECT_TRUE(load({.tuning = *tuning_from_json(*text)}).empty());
  EXPECT_TRUE(load().empty());
}

TEST_F(TunedLoadTest, one_of_another_device_is_ignored_with_a_word) {
  auto other = Internals::of(device)->gpu->profile();
  other.name = "another device";
  TunedRow row;
  row.row = {"embedding_q4gsw", "any"};
  const auto text = *merge_tuning({}, to_json(std::span(&row, 1), tuned_on(other)));
  std::ofstream(folder / "model.tuning.json") << text;
  for (const Options& options : {Options{}, Options{.tuning = *tuning_from_json(text)}}) {
    const auto notes = load(options);
    ASSERT_FALSE(notes.empty());
    EXPECT_NE(notes[0].find("the tuning is ignored: it is for another device"), std::string::npos) << notes[0];
  }
  setenv("NIBBLE_TUNE", "0", 1);
  EXPECT_TRUE(load().empty());
}

TEST_F(TunedLoadTest, one_of_another_device_does_not_stand_in_the_way_of_measuring) {
  auto profile = Internals::of(device)->gpu->profile();
  profile.name = "another device";
  const Options options{
      .tuning = {{.choice = "none", .variant = "b", .on = tuned_on(profile)}}, .tune = true, .tune_ms = kLongest};
  const auto notes = load(options);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_MENTIONS(notes[0], "the tuning is ignored: it is for another device");
  ASSERT_EQ(folder.kept().size(), 1U);
  const auto text = nibble::tune(device, path, {options, folder / "out.json", {}});
  ASSERT_TRUE(succeeds(text));
  EXPECT_MENTIONS(*text, "the tuning is ignored: it is for another device");
  EXPECT_EQ(read(folder / "out.json").find("is ignored"), std::string::npos);
}

TEST_F(TunedLoadTest, what_a_file_has_for_others_does_not_hurt_what_it_has_for_this_device) {
  const auto here = tuned_on(Internals::of(device)->gpu->profile());
  TunedRow row;
  row.row = {"embedding_q4gsw", "any"};
  auto text = *merge_tuning({}, to_json(std::span(&row, 1), here));
  std::vector<TunedRow> many(Preferences::kMostRows, row);
  many[0].row.choice = "none";
  text = *merge_tuning(text, to_json(many, {"another device", here.driver, here.engine, here.nibble}));
  std::ofstream(folder / "model.tuning.json") << text;
  EXPECT_TRUE(load({.tune = true, .tune_ms = kLongest}).empty());
  EXPECT_TRUE(folder.kept().empty()) << "there was nothing to measure";
}

TEST_F(TunedLoadTest, a_damaged_file_in_the_cache_is_replaced) {
  const Options options{.tune = true, .tune_ms = kLongest};
  EXPECT_TRUE(load(options).empty());
  ASSERT_EQ(folder.kept().size(), 1U);
  for (const auto& damaged : {std::string("{"), std::string(kMostTuningBytes + 1, ' ')}) {
    std::ofstream(folder.kept()[0]) << damaged;
    EXPECT_EQ(load(options).size(), 1U);
    EXPECT_TRUE(load(options).empty());
    EXPECT_TRUE(succeeds(tuning_from_json(read(folder.kept()[0]))));
  }
  std::ofstream(folder.kept()[0]) << "{";
  EXPECT_TRUE(succeeds(nibble::tune(device, path, {{.tune_ms = kLongest}, {}, {}})));
  EXPECT_TRUE(load(options).empty());
}

TEST_F(TunedLoadTest, a_broken_file_that_nobody_named_is_ignored_with_a_word) {
  for (const std::string_view text : {"{", "", R"({"choices": [{"choice": "none", "variant": "b"}]})"}) {
    std::ofstream(folder / "model.tuning.json") << text;
    EXPECT_EQ(load().size(), 1U) << text;
  }
}

TEST_F(TunedLoadTest, an_output_that_is_no_tuning_is_left_alone) {
  std::ofstream(folder / "notes.txt") << "mine";
  bool has_measured = false;
  const auto tune_to = [&](const std::string& output) {
    return nibble::tune(device, path, {{.tune_ms = kLongest}, output, [&](auto, auto) { has_measured = true; }});
  };
  EXPECT_TRUE(fails_with(tune_to(folder / "notes.txt"), "is not a JSON object"));
  EXPECT_EQ(read(folder / "notes.txt"), "mine");
  EXPECT_TRUE(fails_with(tune_to(folder / "notes.txt/tuning.json"), "cannot be written: "));
  EXPECT_TRUE(fails_with(tune_to(folder / ""), "is a folder, not a file"));
  EXPECT_TRUE(fails_with(tune_to("/dev/full"), "is not a regular file"));
  EXPECT_FALSE(has_measured) << "it would be lost";
  std::ofstream(folder / "empty.json").flush();
  EXPECT_TRUE(succeeds(tune_to(folder / "empty.json"))) << "as mktemp makes them";
  EXPECT_FALSE(tuning_from_json(read(folder / "empty.json"))->empty());
}

TEST_F(TunedLoadTest, what_a_caller_forces_is_not_what_the_table_prefers) {
  const auto before = [&](const std::vector<ForcedVariant>& variants) {
    std::set<std::string> names;
    const auto text = nibble::tune(device, path, {{.variants = variants, .tune_ms = kLongest}, folder / "out", {}});
    EXPECT_TRUE(succeeds(text));
    const auto json = Json::parse(text.value_or("{}"));
    std::filesystem::remove(folder / "out");
    if (!text) return names;
    for (const auto& one : *(*tunings_of(*json))[0].find("choices")->as<Json::Array>()) {
      if (const auto* name = one.find("before")) names.insert(*name->as<std::string>());
    }
    return names;
  };
  const auto usual = before({});
  EXPECT_FALSE(usual.empty());
  for (const auto* choice : all_choices(ops::registry())) {
    if (choice->name != "embedding_q4gsw") continue;
    for (const auto& variant : choice->variants)
      EXPECT_EQ(before({{std::string(choice->name), std::string(variant.name)}}), usual) << variant.name;
  }
}

TEST_F(TunedLoadTest, a_load_tells_how_far_its_tuning_is) {
  std::vector<std::uint64_t> seen;
  std::uint64_t cases = 0;
  const auto tell = [&](std::uint64_t done, std::uint64_t total) {
    seen.push_back(done);
    cases = total;
  };
  EXPECT_TRUE(succeeds(Model::load(device, path, {{.tune = true, .tune_ms = kLongest}, {}, tell})));
  EXPECT_EQ(seen.size(), cases);
  EXPECT_GT(cases, 0U);
  seen.clear();
  EXPECT_TRUE(succeeds(Model::load(device, path, {{.tune = true, .tune_ms = kLongest}, {}, tell})));
  EXPECT_TRUE(seen.empty()) << "it is kept";
}

TEST_F(TunedLoadTest, a_load_that_is_stopped_keeps_what_it_measured_and_the_next_one_measures_the_rest) {
  static bool is_enough;
  is_enough = false;
  set_stop_check([] { return is_enough; });
  const auto stop = [](std::uint64_t done, std::uint64_t) { is_enough = done == 2; };
  const Options options{.tune = true, .tune_ms = kLongest};
  EXPECT_TRUE(fails_with(Model::load(device, path, {options, {}, stop}), "loading was cancelled"));
  set_stop_check(nullptr);
  ASSERT_EQ(folder.kept().size(), 1U);
  const auto stopped = tuning_from_json(read(folder.kept()[0]));
  ASSERT_TRUE(succeeds(stopped));
  EXPECT_FALSE(stopped->empty());
  EXPECT_TRUE(load().empty());
  EXPECT_EQ(*tuning_from_json(read(folder.kept()[0])), *stopped) << "nobody wanted more";
  // By what was measured alone: the rows between two points are there or not by who won, which is a matter of chance.
  const auto some = points_in(read(folder.kept()[0]));
  EXPECT_EQ(some.size(), 2U);
  EXPECT_TRUE(load(options).empty());
  const auto all = points_in(read(folder.kept()[0]));
  EXPECT_GT(all.size(), some.size());
  EXPECT_TRUE(std::ranges::includes(all, some));
  // A tuning that is stopped loses nothing that is known.
  is_enough = false;
  set_stop_check([] { return is_enough; });
  EXPECT_TRUE(
      fails_with(nibble::tune(device, path, {{.tune_ms = kLongest}, {}, stop}), "tuning was stopped when 2 of"));
  set_stop_check(nullptr);
  EXPECT_EQ(points_in(read(folder.kept()[0])), all);
  EXPECT_FALSE(was_stopped(read(folder.kept()[0]), tuned_on(Internals::of(device)->gpu->profile())));
}

TEST_F(TunedLoadTest, sessions_run_while_their_device_is_tuned) {
  const auto model = Model::load(device, path);
  ASSERT_TRUE(succeeds(model));
  std::atomic<bool> is_done = false;
  int calls = 0;
  std::thread caller([&] {
    const std::vector<std::int32_t> ids{1, 2, 3, 49, 0, 7};
    const HostTensor in = tensor(DType::i32, {2, 3}, ids);
    while (!is_done || calls == 0) {
      const auto out = model->run({&in, 1});
      ASSERT_TRUE(succeeds(out));
      const auto got = out->front().as<float>();
      ASSERT_TRUE(are_rows(std::vector(got.begin(), got.end()), ids));
      ++calls;
    }
  });
  const auto text = nibble::tune(device, path, {{.tune_ms = kLongest}, {}, {}});
  is_done = true;
  caller.join();
  ASSERT_TRUE(succeeds(text));
  EXPECT_GT(calls, 0);
  EXPECT_TRUE(load().empty());
}

TEST_F(TunedLoadTest, a_file_that_is_too_large_is_ignored_with_a_word) {
  std::ofstream(folder / "model.tuning.json") << std::string(kMostTuningBytes + 1, ' ');
  const auto notes = load();
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("bytes, but 4194304 are the most"), std::string::npos) << notes[0];
}

TEST_F(TunedLoadTest, a_load_that_is_stopped_while_it_measures_is_cancelled) {
  set_stop_check([] { return true; });
  EXPECT_TRUE(fails_with(Model::load(device, path, {{.tune = true}, {}}), "loading was cancelled"));
  EXPECT_TRUE(fails_with(nibble::tune(device, path), "tuning was stopped when 0 of"));
  set_stop_check(nullptr);
}

}  // namespace
}  // namespace nibble::test
