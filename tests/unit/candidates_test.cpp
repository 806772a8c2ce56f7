// The option candidates: a node and three outputs behind the program's own.
#include "boundary/boundary.hpp"
#include "support/planning.hpp"

namespace nibble {
namespace {

using namespace test;

/// y = -x
GraphBuilder negated(Shape shape, DType dtype = DType::f32) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(dtype, shape));
  const auto y = b.tensor(dtype, shape);
  b.op("aten.neg.default", {x, y});
  b.output(y);
  return b;
}

Options candidates(std::uint64_t count) {
  Options options;
  options.candidates = count;
  return options;
}

std::size_t dispatches(const GraphBuilder& b) {
  const auto plan = make(b, {}, candidates(64));
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? (*plan)->layout().max_dispatches : 0;
}

TEST(Candidates, are_three_outputs_after_the_programs_own) {
  const auto b = negated({1, 5, 300});
  const auto plan = make(b, {}, candidates(64));
  ASSERT_TRUE(plan) << plan.error().message;
  const Boundary boundary(signature_of(b.graph), *plan);
  const auto& outputs = boundary.signature().outputs;
  ASSERT_EQ(outputs.size(), 4U);
  EXPECT_EQ(outputs[0].shape, (Shape{1, 5, 300}));
  EXPECT_EQ(outputs[1].shape, (Shape{64}));
  EXPECT_EQ(outputs[2].dtype, DType::i32);
  EXPECT_EQ(outputs[3].shape, (Shape{1}));
  EXPECT_EQ(boundary.signature().output_sources[3].index, 3U);
}

TEST(Candidates, are_at_most_the_whole_vocabulary) {
  const auto plan = make(negated({1, 10}), {}, candidates(1024));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ((*plan)->layout().outputs[1].bound, (Shape{10}));
}

TEST(Candidates, take_a_few_dispatches_however_large_the_vocabulary) {
  // One is the program's own.
  EXPECT_EQ(dispatches(negated({1, 1})), 1U + 4);
  EXPECT_EQ(dispatches(negated({1, 16384})), 1U + 4);
  EXPECT_EQ(dispatches(negated({1, 49152})), 1U + 7);
  EXPECT_EQ(dispatches(negated({1, 262144})), 1U + 7);
  EXPECT_EQ(dispatches(negated({1, 1, 4000037})), 1U + 10);
}

TEST(Candidates, are_of_the_first_output_that_can_be_logits) {
  GraphBuilder b = negated({2, 3, 8});
  const auto x = b.input(b.tensor(DType::f16, {1, 8}));
  const auto y = b.tensor(DType::f16, {1, 8});
  b.op("aten.neg.default", {x, y});
  b.output(y);
  const auto plan = make(b, {}, candidates(4));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ((*plan)->graph().nodes.back()["self"], y);
  EXPECT_EQ((*plan)->graph().candidates_of, 1U);
}

TEST(Candidates, without_the_option_there_is_nothing_more) {
  const auto plan = make(negated({1, 8}));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ((*plan)->layout().outputs.size(), 1U);
}

TEST(Candidates, refuse_what_they_cannot_be_of) {
  EXPECT_EQ(error_of(negated({1, 8}), {}, candidates(1025)), "candidates is 1025, but the most is 1024");
  EXPECT_EQ(error_of(negated({2, 3, 8}), {}, candidates(4)),
            "candidates is 4, but no output of the program is float logits of one text");
  EXPECT_EQ(error_of(negated({8}, DType::i32), {}, candidates(4)),
            "candidates is 4, but no output of the program is float logits of one text");
}

/// A program may name the op as well.
std::string refused(DType dtype, Shape shape, std::int64_t count, std::vector<DType> outs) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(dtype, shape));
  std::vector<ValueId> items;
  for (const auto out : outs) {
    items.push_back(b.tensor(out, {4}));
    b.output(items.back());
  }
  b.op("nibble.top_candidates", {x, b.integer(count), b.list(items)});
  return error_of(b);
}

TEST(Candidates, check_their_arguments) {
  const std::vector<DType> right = {DType::f32, DType::i32, DType::f32};
  EXPECT_EQ(refused(DType::f32, {8}, 4, right), "");
  EXPECT_EQ(refused(DType::f32, {8}, 0, right), "nibble.top_candidates: count is 0, but it must be from 1 to 1024");
  EXPECT_EQ(refused(DType::f32, {}, 4, right), "nibble.top_candidates: self is a scalar, which has no rows");
  EXPECT_MENTIONS(refused(DType::i32, {8}, 4, right), "self must be float32 or float16");
  EXPECT_EQ(refused(DType::f32, {8}, 4, {DType::f32}),
            "nibble.top_candidates: out must hold three tensors, but it holds 1");
  EXPECT_EQ(refused(DType::f32, {8}, 4, {DType::f32, DType::f32, DType::f32}),
            "nibble.top_candidates: out has the wrong types");
  EXPECT_MENTIONS(refused(DType::f32, {8}, 5, right), "nibble.top_candidates");
}

}  // namespace
}  // namespace nibble
