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
  /// All sentences, a line each; with their number where several operators give one.
  static std::string problems(const Inspection& facts) {
    std::string text;
    for (const auto& [error, count] : facts.problems.all) {
      if (!text.empty()) text += '\n';
      text += error.message;
      if (count > 1) text += " x" + std::to_string(count);
    }
    return text;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::filesystem::path path_;
};

TEST_F(InspectTest, tells_everything_about_a_program) {
  auto pte = describe(embedding_blob(), {.wide_ints = true, .dynamic = true});
  pte.methods.push_back(constant_method("get_vocab_size", {std::int64_t{10}}));
  const auto facts = inspect(write(write_pte(pte)), {});
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(problems(*facts), "");
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
  ASSERT_TRUE(facts->plan) << problems(*facts);
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
  EXPECT_EQ(problems(*facts), "input 0 has shape [9, 9], but the program takes [2, 3]");
  EXPECT_TRUE(facts->plan);

  facts = inspect(path, {}, {{}, {{1, {9}}}});
  ASSERT_TRUE(facts);
  EXPECT_EQ(problems(*facts), "there is no input 1: the program has 1");

  facts = inspect(path, {}, {{}, {}, {3}});
  ASSERT_TRUE(facts);
  EXPECT_EQ(problems(*facts), "1 integers were given, but the program has 0 integer inputs");
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
  EXPECT_EQ(problems(*facts), "the program uses an operator that Nibble does not have: aten.unheard_of.default");
  const std::string json = to_json(*facts, {.dispatches = true});
  EXPECT_NE(json.find("\"plan\": null"), std::string::npos) << json;
}

/// Three operators that are refused, one behind the other, and one behind them that is not.
BlobBuilder refused_blob() {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {4});
  const int y = b.tensor(DType::f32, {4});
  const int z = b.tensor(DType::f32, {2});
  const int w = b.tensor(DType::f32, {2});
  const int v = b.tensor(DType::f32, {1, 2});
  const int wide = b.tensor(DType::i64, {2});
  b.op("aten.unheard_of.default", {x, y});
  b.op("aten.unheard_of.default", {x, y});
  b.op("aten.relu.default", {y, z});
  b.op("aten.relu.default", {z});
  b.op("aten.abs.default", {z, w});
  b.op("aten.unsqueeze_copy.default", {w, b.integer(7), v});
  b.op("aten.abs.default", {wide, wide});
  b.inputs({x, wide});
  b.outputs({v});
  return b;
}

constexpr std::string_view kRefusals[] = {
    "the program uses an operator that Nibble does not have: aten.unheard_of.default",
    "aten.relu.default: takes 2 arguments, but the program gives 1",
    "aten.abs.default reads a int64 tensor, but GPUs have no 64-bit elements: export with downcast_64_bit",
    "aten.relu.default: out would have shape [4], but the program makes room for [2]",
    "aten.unsqueeze_copy.default: dim is 7, but the tensor has 2 dimensions",
};

TEST_F(InspectTest, names_all_reasons_at_once) {
  const auto facts = inspect(write(make_pte(refused_blob(), {.wide_ints = false})), {});
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_FALSE(facts->plan);
  ASSERT_EQ(facts->problems.all.size(), std::size(kRefusals)) << problems(*facts);
  for (std::size_t i = 0; i < std::size(kRefusals); ++i) EXPECT_EQ(facts->problems.all[i].error.message, kRefusals[i]);
  EXPECT_EQ(facts->problems.all[0].count, 2U);
  EXPECT_NE(to_json(*facts, {}).find("\"operators\": 2"), std::string::npos);
}

TEST_F(InspectTest, goes_on_behind_an_integer_that_nobody_made) {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {4, 3});
  const int n = b.symint();
  const int y = b.tensor(DType::f32, {4, 3});
  const int z = b.tensor(DType::f32, {5});
  b.op("sym_unheard_of", {x, n});
  b.op("aten.slice_copy.Tensor", {x, b.integer(0), b.integer(0), n, b.integer(1), y});
  b.op("aten.relu.default", {y, z});
  b.inputs({x});
  b.outputs({z, b.tensor(DType::f32, {1})});
  const auto facts = inspect(write(make_pte(b)), {});
  ASSERT_TRUE(facts) << facts.error().message;
  const auto& all = facts->problems.all;
  ASSERT_EQ(all.size(), 3U) << problems(*facts);
  EXPECT_EQ(all[0].error.message, "the program uses an operator that Nibble does not have: sym_unheard_of");
  EXPECT_EQ(all[1].error.message.substr(0, 28), "the output list reads value ");
  EXPECT_EQ(all[2].error.message.substr(0, 18), "aten.relu.default:");
}

TEST_F(InspectTest, names_the_reasons_of_all_delegates) {
  auto pte = describe(refused_blob(), {.wide_ints = false});
  auto& forward = pte.methods.front();
  pte.segments.push_back({embedding_blob().finish()});
  forward.delegates.push_back({.index = static_cast<std::uint32_t>(pte.segments.size()) - 1});
  forward.delegates.push_back({.id = "XnnpackBackend"});
  auto second = forward.calls.front();
  second.index = 1;
  forward.calls.push_back(second);
  const auto facts = inspect(write(write_pte(pte)), {});
  ASSERT_TRUE(facts) << facts.error().message;
  const auto& all = facts->problems.all;
  ASSERT_EQ(all.size(), std::size(kRefusals) + 2) << problems(*facts);
  EXPECT_NE(all[0].error.message.find("has 2 delegate calls"), std::string::npos) << all[0].error.message;
  for (std::size_t i = 0; i < std::size(kRefusals); ++i) {
    EXPECT_EQ(all[i + 1].error.message, "delegate 0: " + std::string(kRefusals[i]));
  }
  EXPECT_EQ(all.back().error.message.substr(0, 37), "delegate 1: the file has no data name");
  EXPECT_EQ(facts->ops.size(), 4U);
}

TEST_F(InspectTest, pays_for_each_delegate_of_one_blob) {
  auto pte = describe(refused_blob(), {.wide_ints = false});
  auto& forward = pte.methods.front();
  forward.calls.push_back(forward.calls.front());
  forward.delegates.resize(5000, forward.delegates.front());
  const auto facts = inspect(write(write_pte(pte)), {});
  ASSERT_FALSE(facts);
  EXPECT_NE(facts.error().message.find("the blobs of the delegates add up to more than 8 times"), std::string::npos)
      << facts.error().message;
}

TEST_F(InspectTest, fails_on_what_is_no_program) {
  EXPECT_FALSE(inspect("no/such/file.pte", {}));
  EXPECT_FALSE(inspect(write(Bytes(100)), {}));
}

}  // namespace
}  // namespace nibble
