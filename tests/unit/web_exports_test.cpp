// What the WebAssembly module offers, called as JavaScript would not.
#include <gtest/gtest.h>

#include "support/pte_builder.hpp"
#include "support/small_programs.hpp"
#include "web/exports.hpp"

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
                                .max_workgroup_size_x = 256};
    wire::Options options;
    options.tuning.has_choices = 1;
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
