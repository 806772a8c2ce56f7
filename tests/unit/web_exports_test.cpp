// What the WebAssembly module offers, called as JavaScript would not.
#include <gtest/gtest.h>

#include <array>

#include "support/expect.hpp"
#include "support/pte_builder.hpp"
#include "support/small_programs.hpp"
#include "web/records.hpp"
#include "web/tune/exports.hpp"

namespace nibble::test {
namespace {

constexpr auto kInvalidArgument = static_cast<std::uint32_t>(ErrorCode::invalid_argument);

std::string text(const wire::Failure& failure) {
  EXPECT_EQ(failure.code, kInvalidArgument);
  return {failure.message.data, failure.message.bytes};
}

std::string error() { return text(*web::nibble_error()); }

class WebExports : public testing::Test {
 protected:
  WebExports() { web::nibble_program_new(); }
  ~WebExports() override {
    for (std::uint32_t i = 1; i < 8; ++i) web::nibble_session_free(i);
  }
  WebExports(const WebExports&) = delete;
  WebExports& operator=(const WebExports&) = delete;

  const wire::FileRange* head() const { return web::nibble_program_head(file_.data(), size(), file_.size()); }
  const wire::FileRange* container() {
    return web::nibble_program_container(file_.data(), static_cast<std::uint32_t>(program_.size), nullptr, 0);
  }
  std::uint32_t blob() {
    return web::nibble_program_blob(file_.data() + blob_.offset, static_cast<std::uint32_t>(blob_.size));
  }
  static const wire::Layout* plan() {
    const wire::Profile profile{.max_buffer_size = 1 << 28,
                                .max_storage_binding_size = 1 << 27,
                                .max_workgroups_per_dimension = 65535,
                                .max_workgroup_invocations = 256,
                                .max_workgroup_size_x = 256,
                                .max_workgroup_bytes = 16384};
    const wire::Options options;
    return web::nibble_program_plan(&profile, &options);
  }
  void load() {
    const auto* at = head();
    ASSERT_NE(at, nullptr);
    program_ = *at;
    at = container();
    ASSERT_NE(at, nullptr);
    blob_ = *at;
    ASSERT_EQ(blob(), 1U);
    ASSERT_NE(plan(), nullptr);
  }

  /// What a session says to ids of this record.
  static std::string refusal(wire::GivenInput record) {
    *const_cast<wire::GivenInput*>(web::nibble_session_given(1, 1)) = record;
    return web::nibble_session_take(1) == nullptr ? error() : "";
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(file_.size()); }

  Bytes file_ = make_pte(embedding_blob());
  wire::FileRange program_{};
  wire::FileRange blob_{};
};

wire::GivenInput ids() {
  return {.dtype = static_cast<std::uint32_t>(DType::i32),
          .has_shape = 1,
          .shape = {.rank = 2, .dims = {2, 3}},
          .count = 6};
}

TEST_F(WebExports, refuse_steps_out_of_order) {
  const std::string order = "a program is read in the order head, container, blob and plan, once";
  EXPECT_EQ(container(), nullptr);
  EXPECT_EQ(error(), order);
  EXPECT_EQ(blob(), 0U);
  EXPECT_EQ(plan(), nullptr);
  EXPECT_EQ(web::nibble_session_new(), 0U);
  EXPECT_EQ(web::nibble_program_name_input(0, "ids", 3), 0U);
  EXPECT_EQ(error(), order);
  load();
  EXPECT_EQ(plan(), nullptr);
  EXPECT_EQ(head(), nullptr);
  EXPECT_EQ(error(), order);
}

TEST_F(WebExports, refuse_what_follows_a_step_that_failed) {
  EXPECT_EQ(web::nibble_program_head(file_.data(), 3, file_.size()), nullptr);
  EXPECT_EQ(container(), nullptr);
  EXPECT_EQ(head(), nullptr);
  web::nibble_program_new();
  load();
}

TEST_F(WebExports, refuse_sessions_that_are_not_there) {
  load();
  EXPECT_EQ(web::nibble_session_new(), 1U);
  EXPECT_EQ(web::nibble_session_new(), 2U);
  web::nibble_session_free(1);
  web::nibble_session_free(1);
  for (const auto number : {0U, 1U, 3U, ~0U}) {
    const auto none = "there is no session " + std::to_string(number);
    web::nibble_session_free(number);
    EXPECT_EQ(web::nibble_session_given(number, 1), nullptr);
    EXPECT_EQ(error(), none);
    EXPECT_EQ(web::nibble_session_take(number), nullptr);
    EXPECT_EQ(web::nibble_session_update(number), nullptr);
    EXPECT_EQ(web::nibble_session_host_data(number, 0, 1), nullptr);
    EXPECT_EQ(error(), none);
    EXPECT_EQ(text(*web::nibble_session_fault(number, 0, 0, 0, 0)), none);
    const wire::BadElement element;
    EXPECT_EQ(text(*web::nibble_session_bad_element(number, 0, &element)), none);
  }
  EXPECT_EQ(web::nibble_session_new(), 1U);
}

TEST_F(WebExports, refuse_inputs_kinds_and_types_that_are_not_there) {
  load();
  ASSERT_EQ(web::nibble_session_new(), 1U);
  EXPECT_EQ(web::nibble_program_name_input(1, "ids", 3), 0U);
  EXPECT_EQ(error(), "there is no input 1");
  EXPECT_EQ(web::nibble_session_host_data(1, 1, 1), nullptr);
  EXPECT_EQ(error(), "there is no input 1");
  const wire::BadElement element;
  EXPECT_EQ(text(*web::nibble_session_bad_element(1, 1, &element)), "there is no input 1");
  EXPECT_EQ(web::nibble_session_given(1, ~0U), nullptr);
  EXPECT_EQ(error(), "4294967295 inputs are given, but the program takes 1");

  auto wrong = ids();
  wrong.kind = 3;
  EXPECT_EQ(refusal(wrong), "there is no kind of input 3");
  wrong = ids();
  wrong.dtype = 8;
  EXPECT_EQ(refusal(wrong), "there is no type 8");
  wrong = ids();
  wrong.shape.rank = 9;
  EXPECT_EQ(refusal(wrong), "input 0 has 9 dimensions, but the most is 8");
  EXPECT_EQ(refusal(ids()), "");
  const auto* step = web::nibble_session_update(1);
  ASSERT_NE(step, nullptr);
  EXPECT_GT(step->dispatches.count, 0U);
}

TEST_F(WebExports, no_elements_have_an_address_too) {
  load();
  ASSERT_EQ(web::nibble_session_new(), 1U);
  EXPECT_NE(web::nibble_session_host_data(1, 0, 0), nullptr);
  EXPECT_NE(web::nibble_session_given(1, 1), nullptr);
}

TEST_F(WebExports, live_ranges_are_for_as_many_states_as_there_are) {
  EXPECT_EQ(web::nibble_program_live_ranges(nullptr, 0), nullptr);
  EXPECT_EQ(error(), "a program is read in the order head, container, blob and plan, once");
  load();
  const auto* none = web::nibble_program_live_ranges(nullptr, 0);
  ASSERT_NE(none, nullptr);
  EXPECT_EQ(none->ranges.count, 0U);
  const std::uint64_t rows = 1;
  EXPECT_EQ(web::nibble_program_live_ranges(&rows, 1), nullptr);
  EXPECT_EQ(error(), "there is no state 1");
}

constexpr double kNoLimit = 1e9;  // milliseconds

TEST_F(WebExports, search_for_what_there_is_to_measure_ends_in_time) {
  load();
  const auto* none = web::nibble_tuning_cases(0);
  ASSERT_NE(none, nullptr);
  EXPECT_EQ(none->is_complete, 0U);
  EXPECT_EQ(none->cases.count, 0U);
  EXPECT_EQ(web::nibble_tuning_cases(kNoLimit)->is_complete, 1U);
}

TEST_F(WebExports, what_another_version_measured_is_not_read_but_told) {
  constexpr auto kText = static_cast<std::uint32_t>(WrittenField::Kind::text);
  const std::array unread{wire::TuningField{.name = std::string_view("best")}};
  const std::array choices{wire::TuningChoice{.is_object = 1, .fields = std::span<const wire::TuningField>(unread)}};
  std::array<wire::TuningField, kTunedOn.size()> on{};
  for (std::size_t i = 0; i < on.size(); ++i)
    on[i] = {.name = std::string_view(kTunedOn[i].first), .kind = kText, .text = std::string_view("9")};
  const std::array tunings{wire::DeviceTuning{.fields = std::span<const wire::TuningField>(on),
                                              .has_choices = 1,
                                              .choices = std::span<const wire::TuningChoice>(choices)}};
  const wire::Options record{.tuning = {.tunings = std::span<const wire::DeviceTuning>(tunings)}};
  EXPECT_TRUE(fails_with(web::options_of(record, {"9", "9", "9", "9"}), "choices[0] of the tuning has no choice"));
  const auto options = web::options_of(record, {"9", "9", "9", "10"});
  ASSERT_TRUE(succeeds(options));
  ASSERT_EQ(options->tuning.size(), 1U);
  EXPECT_EQ(options->tuning[0].on.nibble, "9");
}

TEST_F(WebExports, tuning_measures_cases_one_by_one) {
  EXPECT_EQ(web::nibble_tuning_cases(kNoLimit), nullptr);
  EXPECT_EQ(error(), "a program is read in the order head, container, blob and plan, once");
  EXPECT_EQ(web::nibble_tuning_rows(), nullptr);
  EXPECT_EQ(error(), "no cases are measured");
  load();
  ASSERT_EQ(web::nibble_session_new(), 1U);
  const auto* found = web::nibble_tuning_cases(kNoLimit);
  ASSERT_NE(found, nullptr);
  ASSERT_GT(found->cases.count, 0U);
  const auto variants = found->cases.data[0].variants.count;
  ASSERT_GT(variants, 1U);
  EXPECT_EQ(web::nibble_tuning_session(), 0U);
  EXPECT_EQ(error(), "no case is measured");
  EXPECT_EQ(web::nibble_tuning_bench(found->cases.count), nullptr);
  EXPECT_EQ(error(), "there is no case " + std::to_string(found->cases.count));
  const auto* bench = web::nibble_tuning_bench(0);
  ASSERT_NE(bench, nullptr);
  EXPECT_EQ(bench->inputs.count, bench->layout.inputs.count);
  ASSERT_EQ(web::nibble_tuning_session(), 2U);
  EXPECT_EQ(web::nibble_tuning_force(1, 0), 0U);
  EXPECT_EQ(error(), "the session is of another plan");
  EXPECT_EQ(web::nibble_tuning_force(2, variants), 0U);
  EXPECT_EQ(error(), "there is no variant " + std::to_string(variants));
  EXPECT_EQ(web::nibble_tuning_force(2, 1), 1U);

  const std::array<float, 2> a = {1, 2};
  const std::array<float, 2> b = {1, 2.1F};
  const auto bytes = [](const auto& array) { return std::as_bytes(std::span(array)).data(); };
  EXPECT_EQ(web::nibble_tuning_agree(0, bytes(a), bytes(a), sizeof(a)), 1U);
  EXPECT_EQ(web::nibble_tuning_agree(0, bytes(a), bytes(b), sizeof(a)), 2U);
  EXPECT_EQ(web::nibble_tuning_agree(9, bytes(a), bytes(b), sizeof(a)), 0U);

  // The second variant takes half the time of all others.
  std::vector<double> first(variants, 100);
  first[1] = 50;
  EXPECT_EQ(web::nibble_tuning_race(first.data(), variants - 1, 1e6), 0U);
  EXPECT_EQ(web::nibble_tuning_next(-1), nullptr);
  ASSERT_EQ(web::nibble_tuning_race(first.data(), variants, 1e6), 1U);
  const auto* turn = web::nibble_tuning_next(-1);
  for (int i = 0; i < 1000 && turn->is_done == 0; ++i) turn = web::nibble_tuning_next(first[turn->variant]);
  EXPECT_EQ(turn->is_done, 1U);
  EXPECT_EQ(web::nibble_tuning_next(1), nullptr);
  const auto& won = web::nibble_tuning_rows()->rows.data[0];
  EXPECT_EQ(std::string_view(won.variant.data, won.variant.bytes),
            std::string_view(found->cases.data[0].variants.data[1].data, found->cases.data[0].variants.data[1].bytes));
  EXPECT_GT(won.times.count, 1U);
}

TEST_F(WebExports, tunings_of_other_devices_are_ignored_with_a_word) {
  const auto field = [](std::string_view name, std::string_view value) {
    return wire::TuningField{.name = name, .kind = 0, .text = value};
  };
  std::array on = {field("device", "A"), field("driver", ""), field("engine", "web"), field("nibble", "1.0")};
  const std::array fields = {field("choice", "embedding_q4gsw"), field("variant", "any")};
  const wire::TuningChoice choice{.is_object = 1, .fields = std::span<const wire::TuningField>(fields)};
  const wire::DeviceTuning tuning{
      .fields = std::span<const wire::TuningField>(on), .has_choices = 1, .choices = std::span(&choice, 1)};
  const auto planned = [&](std::string_view device) {
    web::nibble_program_new();
    program_ = *head();
    blob_ = *container();
    blob();
    const wire::Profile profile{.name = device,
                                .engine = std::string_view("web"),
                                .nibble = std::string_view("1.0"),
                                .max_buffer_size = 1 << 28,
                                .max_storage_binding_size = 1 << 27,
                                .max_workgroups_per_dimension = 65535,
                                .max_workgroup_invocations = 256,
                                .max_workgroup_size_x = 256};
    wire::Options options;
    options.tuning.tunings = std::span(&tuning, 1);
    return web::nibble_program_plan(&profile, &options);
  };
  const auto* here = planned("A");
  ASSERT_NE(here, nullptr);
  EXPECT_EQ(here->is_tuned, 1U);
  EXPECT_EQ(here->notes.count, 0U);
  const auto* elsewhere = planned("B");
  ASSERT_NE(elsewhere, nullptr);
  EXPECT_EQ(elsewhere->is_tuned, 0U);
  ASSERT_EQ(elsewhere->notes.count, 1U);
  EXPECT_EQ(std::string_view(elsewhere->notes.data[0].data, elsewhere->notes.data[0].bytes),
            "the tuning is ignored: it is for A (any driver, web) and Nibble 1.0, but this is B (any driver, web) and "
            "Nibble 1.0");
  on[3] = field("none", "");
  EXPECT_EQ(planned("A"), nullptr);
  EXPECT_EQ(error(), "a tuning does not say for which nibble it is");
}

TEST_F(WebExports, sessions_outlive_the_program) {
  load();
  ASSERT_EQ(web::nibble_session_new(), 1U);
  web::nibble_program_new();
  EXPECT_EQ(web::nibble_session_new(), 0U);
  EXPECT_EQ(refusal(ids()), "");
  EXPECT_NE(web::nibble_session_update(1), nullptr);
}

}  // namespace
}  // namespace nibble::test
