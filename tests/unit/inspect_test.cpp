// What `nibble inspect` knows about a file, with no GPU.
#include "api/inspect.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/pte_builder.hpp"
#include "support/small_programs.hpp"

namespace nibble {
namespace {

using namespace test;

class InspectTest : public ::testing::Test {
 protected:
  std::string write(const Bytes& bytes) {
    path_ = std::filesystem::temp_directory_path() / ("nibble_inspect_" + std::to_string(getpid()) + ".pte");
    std::ofstream(path_, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    return path_;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::filesystem::path path_;
};

TEST_F(InspectTest, tells_everything_about_a_program) {
  auto pte = describe(embedding_blob(), {.wide_ints = true, .dynamic = true});
  pte.methods.push_back(constant_method("get_vocab_size", {std::int64_t{10}}));
  const auto facts = inspect(write(write_pte(pte)), {});
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_FALSE(facts->problem) << facts->problem->message;
  EXPECT_EQ(facts->method, "forward");
  ASSERT_EQ(facts->inputs.size(), 1U);
  EXPECT_EQ(facts->inputs[0].host.dtype, DType::i64);
  EXPECT_TRUE(facts->inputs[0].host.dynamic);
  EXPECT_EQ(facts->inputs[0].index_rows, 10);
  ASSERT_EQ(facts->outputs.size(), 1U);
  EXPECT_EQ(facts->outputs[0].shape, (Shape{2, 3, 32}));
  ASSERT_EQ(facts->constant_methods.size(), 1U);
  ASSERT_EQ(facts->ops.size(), 1U);
  EXPECT_EQ(facts->ops[0].name, "et_vk.embedding_q4gsw.default");
  EXPECT_EQ(facts->ops[0].count, 1U);
  const std::map<std::string_view, std::set<DType>> dtypes{
      {"weight", {DType::u8}}, {"weight_scales", {DType::f32}}, {"indices", {DType::i32}}, {"out", {DType::f32}}};
  EXPECT_EQ(facts->ops[0].dtypes, dtypes);
  EXPECT_EQ(facts->constants, 2U);
  EXPECT_EQ(facts->constant_bytes, 160U + 80U);
  ASSERT_TRUE(facts->plan && facts->plan->step);
  EXPECT_EQ(facts->plan->memory.constants, 160U + 80U);
  EXPECT_EQ(facts->plan->step->dispatches.size(), 1U);
  EXPECT_EQ(facts->plan->step->outputs.front(), (Shape{2, 3, 32}));
}

TEST_F(InspectTest, tells_what_a_session_keeps) {
  const auto facts = inspect(write(make_pte(cached_attention_blob(10))), {});
  ASSERT_TRUE(facts) << facts.error().message;
  ASSERT_TRUE(facts->plan) << facts->problem->message;
  ASSERT_EQ(facts->plan->states.size(), 2U);
  EXPECT_EQ(facts->plan->states[1].role, "value_cache");
  EXPECT_NE(to_json(*facts, {}).find("\"row_axis\": 1"), std::string::npos);
}

TEST_F(InspectTest, plans_for_live_shapes) {
  const auto facts = inspect(write(make_pte(embedding_blob(), {.dynamic = true})), {}, {{}, {{0, {1, 2}}}});
  ASSERT_TRUE(facts) << facts.error().message;
  ASSERT_TRUE(facts->plan && facts->plan->step);
  EXPECT_EQ(facts->plan->step->outputs.front(), (Shape{1, 2, 32}));
}

TEST_F(InspectTest, says_why_there_is_no_step) {
  const std::string path = write(make_pte(embedding_blob()));
  auto facts = inspect(path, {}, {{}, {{0, {9, 9}}}});
  ASSERT_TRUE(facts) << facts.error().message;
  ASSERT_TRUE(facts->problem);
  EXPECT_EQ(facts->problem->message, "input 0 has shape [9, 9], but the program takes [2, 3]");
  EXPECT_TRUE(facts->plan);

  facts = inspect(path, {}, {{}, {{1, {9}}}});
  ASSERT_TRUE(facts && facts->problem);
  EXPECT_EQ(facts->problem->message, "there is no input 1: the program has 1");

  facts = inspect(path, {}, {{}, {}, {3}});
  ASSERT_TRUE(facts && facts->problem);
  EXPECT_EQ(facts->problem->message, "1 integers were given, but the program has 0 integer inputs");
}

TEST_F(InspectTest, shows_a_program_that_cannot_be_planned) {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {4});
  const int y = b.tensor(DType::f32, {4});
  b.op("aten.unheard_of.default", {x, y});
  b.inputs({x});
  b.outputs({y});
  const auto facts = inspect(write(make_pte(b)), {});
  ASSERT_TRUE(facts) << facts.error().message;
  ASSERT_EQ(facts->ops.size(), 1U);
  EXPECT_FALSE(facts->ops[0].supported);
  EXPECT_FALSE(facts->plan);
  ASSERT_TRUE(facts->problem);
  EXPECT_NE(facts->problem->message.find("aten.unheard_of.default"), std::string::npos);
  const std::string json = to_json(*facts, {.dispatches = true});
  EXPECT_NE(json.find("\"plan\": null"), std::string::npos) << json;
}

TEST_F(InspectTest, fails_on_what_is_no_program) {
  EXPECT_FALSE(inspect("no/such/file.pte", {}));
  EXPECT_FALSE(inspect(write(Bytes(100)), {}));
}

}  // namespace
}  // namespace nibble
