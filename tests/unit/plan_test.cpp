// From graph to plan, with no GPU: memory, aliases, errors.
#include "graph/passes/passes.hpp"
#include "support/expect.hpp"
#include "support/planning.hpp"

namespace nibble {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

TEST(Plan, reports_all_unknown_operators_at_once) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {4}));
  b.op("aten.unheard_of.default", {x, b.tensor(DType::f32, {4})});
  b.op("aten.also_not.default", {x, b.tensor(DType::f32, {4})});
  b.op("aten.unheard_of.default", {x, b.tensor(DType::f32, {4})});
  EXPECT_EQ(error_of(b),
            "the program uses operators that Nibble does not have: aten.unheard_of.default, aten.also_not.default");
}

/// Answers yes once.
struct StopAt {
  static inline int asked = 0;
  static inline int yes_at = 0;
  static bool ask() { return ++asked == yes_at; }
};

TEST(Plan, stops_wherever_it_asks_and_a_small_program_asks_nobody) {
  const auto sums = [](int count) {
    GraphBuilder b;
    auto x = b.input(b.tensor(DType::f32, {4}));
    for (int i = 0; i < count; ++i) x = b.add(x, x, {4});
    b.output(x);
    return b.graph;
  };
  const auto plan = [](const Graph& graph, const Options& options, int yes_at) {
    StopAt::asked = 0;
    StopAt::yes_at = yes_at;
    return Plan::make(graph, {}, options, ops::registry(), StopAt::ask);
  };
  const Graph many = sums(600);
  Options only_lowered;
  for (const auto& pass : passes()) only_lowered.without_passes.emplace_back(pass.name);
  ASSERT_TRUE(succeeds(plan(many, only_lowered, 0)));
  const int in_lowering = StopAt::asked;
  EXPECT_GE(in_lowering, 2);
  ASSERT_TRUE(succeeds(plan(many, {.without_passes = {"elementwise_chains", "epilogues"}}, 0)));
  EXPECT_GT(StopAt::asked, in_lowering) << "between passes, too";
  for (int at = StopAt::asked; at > 0; --at) {
    const auto stopped = plan(many, {.without_passes = {"elementwise_chains", "epilogues"}}, at);
    ASSERT_TRUE(fails_with(stopped, "loading was cancelled while the program was planned"));
    EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
    EXPECT_EQ(StopAt::asked, at);
  }
  EXPECT_TRUE(succeeds(plan(sums(100), {}, 1)));
  EXPECT_EQ(StopAt::asked, 0);
}

TEST(Plan, stops_among_guesses_of_unknown_sizes) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {1, 64, 8}));
  const auto start = b.input(b.symint());
  const auto length = b.input(b.symint());
  const auto zero = b.integer(1);
  for (int i = 0; i < 400; ++i) {
    const auto out = b.tensor(DType::f32, {1, 64, 8});
    b.op("aten.slice_copy.Tensor", {x, zero, start, length, b.integer(1), out});
    b.output(out);
  }
  for (const int at : {1, 2}) {
    StopAt::asked = 0;
    StopAt::yes_at = at;
    const auto stopped =
        Plan::make(b.graph, {}, {.without_passes = {"common_subexpressions"}}, ops::registry(), StopAt::ask);
    EXPECT_TRUE(fails_with(stopped, "loading was cancelled while the program was planned"));
    EXPECT_EQ(StopAt::asked, at);
  }
}

TEST(Plan, lays_out_an_embedding) {
  auto t = table(100, 64, 32, {2, 3});
  const auto plan = make(t.b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(count(**plan, BufferRole::constant), 2U);
  EXPECT_EQ((*plan)->layout().uploads.size(), 2U);
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  ASSERT_EQ(stepper.dispatches().size(), 1U);
  EXPECT_EQ(stepper.output_shape(0), (Shape{2, 3, 64}));
  ASSERT_EQ((*plan)->layout().inputs[0].checks.size(), 1U);
  EXPECT_EQ((*plan)->layout().inputs[0].checks[0].rows, 100);
  EXPECT_FALSE((*plan)->layout().can_fault) << "the host checks ids that come from an input";
}

TEST(Plan, follows_live_shapes_and_lowers_only_what_changed) {
  auto t = table(100, 64, 32, {1, 9});
  const auto plan = make(t.b);
  ASSERT_TRUE(plan);
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.set_shape(0, {1, 4}));
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.output_shape(0), (Shape{1, 4, 64}));
  const auto version = stepper.version();
  ASSERT_TRUE(stepper.set_shape(0, {1, 4}));
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.version(), version);
  ASSERT_TRUE(stepper.set_shape(0, {1, 0}));
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.dispatches().size(), 0U);
  EXPECT_GT(stepper.version(), version);
  EXPECT_EQ(stepper.output_shape(0), (Shape{1, 0, 64}));
}

TEST(Plan, refuses_an_input_that_is_too_large) {
  auto t = table(100, 64, 32, {1, 9});
  const auto plan = make(t.b);
  ASSERT_TRUE(plan);
  Stepper stepper(*plan);
  EXPECT_EQ(stepper.set_shape(0, {1, 10}).error().message, "input 0 of the graph is set to [1, 10], past [1, 9]");
  EXPECT_FALSE(stepper.set_shape(0, {1}));
}

TEST(Plan, makes_views_aliases) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 6}));
  const auto v = b.view(x, {12});
  const auto w = b.view(v, {3, 4});
  b.output(b.add(w, w, {3, 4}));
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.dispatches().size(), 1U);
  EXPECT_EQ(count(**plan, BufferRole::slot), 2U);
}

TEST(Plan, copies_a_view_of_state_that_is_written_later) {
  GraphBuilder b;
  const auto state = b.constant(DType::f32, {4});
  const auto x = b.input(b.tensor(DType::f32, {4}));
  const auto before = b.view(state, {2, 2});
  b.op("aten.add.Tensor", {state, x, b.integer(1), state});
  b.output(before);
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(count(**plan, BufferRole::state), 1U);
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  // The view is a copy; the sum is made beside the state and copied back.
  EXPECT_EQ(stepper.dispatches().size(), 3U);
}

TEST(Plan, copies_a_view_over_a_value_that_was_written_before) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {4}));
  const auto y = b.add(x, x, {4});
  const auto z = b.add(x, x, {4});
  b.output(b.add(y, z, {4}));
  b.op("aten.clone.default", {z, b.null(), y});
  b.output(y);
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.dispatches().size(), 4U);
}

TEST(Plan, stores_identical_constants_once_unless_one_is_written) {
  GraphBuilder b;
  const auto c1 = b.constant(DType::f32, {4}, "same");
  const auto c2 = b.constant(DType::f32, {4}, "same");
  const auto c3 = b.constant(DType::f32, {4}, "same");
  const auto x = b.input(b.tensor(DType::f32, {4}));
  const auto sum = b.add(c1, c2, {4});
  b.op("aten.add.Tensor", {c3, x, b.integer(1), c3});
  b.output(sum);
  b.output(c3);
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(count(**plan, BufferRole::constant), 1U);
  EXPECT_EQ(count(**plan, BufferRole::state), 1U);
  EXPECT_EQ((*plan)->layout().uploads.size(), 2U);
}

TEST(Plan, folds_prepack_into_the_constant) {
  GraphBuilder b;
  const auto c = b.constant(DType::f32, {4});
  const auto packed = b.tensor(DType::f32, {4});
  const auto x = b.input(b.tensor(DType::f32, {4}));
  b.op("et_vk.prepack.default", {c, packed});
  b.output(b.add(packed, x, {4}));
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ((*plan)->layout().uploads.size(), 1U);
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.dispatches().size(), 1U);
}

TEST(Plan, a_prepacked_buffer_that_is_written_is_state_of_its_own) {
  GraphBuilder b;
  const auto c = b.constant(DType::f32, {4}, "key");
  const auto packed = b.tensor(DType::f32, {4});
  const auto x = b.input(b.tensor(DType::f32, {4}));
  b.op("et_vk.prepack.default", {c, packed});
  b.op("aten.add.Tensor", {packed, x, b.integer(1), packed});
  b.output(b.add(c, packed, {4}));
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(count(**plan, BufferRole::constant), 1U);
  EXPECT_EQ(count(**plan, BufferRole::state), 1U);
}

TEST(Plan, computes_once_what_depends_on_constants_alone) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {64}));
  const auto a = b.constant(DType::f32, {64}, "a");
  const auto sum = b.add(b.add(a, b.constant(DType::f32, {64}, "b"), {64}), a, {64});
  b.output(b.add(x, sum, {64}));
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  // The last sum at load stays; its sources and the first one are needed only there.
  EXPECT_EQ(count(**plan, BufferRole::constant), 1U);
  EXPECT_EQ(count(**plan, BufferRole::loading), 3U);
  EXPECT_EQ((*plan)->layout().max_dispatches, 1U);
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.dispatches().size(), 1U);
  const auto preparation = Stepper::preparation(*plan);
  ASSERT_TRUE(preparation);
  ASSERT_EQ(preparation->size(), 2U);
  EXPECT_EQ(preparation->back().bindings[2], stepper.dispatches()[0]->bindings[1]) << "what a call reads";
}

TEST(Plan, computes_in_every_call_what_is_returned_or_written_again) {
  GraphBuilder b;
  const auto a = b.constant(DType::f32, {64}, "a");
  const auto state = b.constant(DType::f32, {64}, "state");
  b.output(b.add(a, a, {64}));
  b.output(b.add(state, a, {64}));
  b.op("aten.add.Tensor", {state, b.input(b.tensor(DType::f32, {64})), b.integer(1), state});
  const auto plan = make(b);
  ASSERT_TRUE(plan) << plan.error().message;
  const auto preparation = Stepper::preparation(*plan);
  ASSERT_TRUE(preparation);
  EXPECT_TRUE(preparation->empty());
}

TEST(Plan, reuses_slots_by_liveness) {
  GraphBuilder b;
  auto v = b.input(b.tensor(DType::f32, {1000}));
  for (int i = 0; i < 10; ++i) v = b.add(v, v, {1000});
  b.output(v);
  const auto plan = make(b, {}, {.without_passes = {"elementwise_chains"}});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(count(**plan, BufferRole::slot), 2U);
  // No dispatch may find a buffer both read and written.
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  for (const auto* d : stepper.dispatches()) {
    EXPECT_NE(d->bindings[0], d->bindings[2]);
    EXPECT_NE(d->bindings[1], d->bindings[2]);
  }
}

TEST(Plan, refuses_values_that_nothing_wrote) {
  GraphBuilder b;
  b.output(b.add(b.tensor(DType::f32, {4}), b.tensor(DType::f32, {4}), {4}));
  EXPECT_MENTIONS(error_of(b), "before anything wrote it");
}

TEST(Plan, refuses_64_bit_elements_by_name) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::i64, {4}));
  b.output(b.add(x, x, {4}, DType::i64));
  EXPECT_MENTIONS(error_of(b), "int64");
}

TEST(Plan, refuses_an_output_that_outgrows_its_room) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {4, 4}));
  b.output(b.add(x, x, {4, 2}));
  EXPECT_EQ(error_of(b), "aten.add.Tensor: out would have shape [4, 4], but the program makes room for [4, 2]");
}

TEST(Plan, refuses_an_activation_over_the_limit_by_name) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {1, 64}));
  const auto y = b.input(b.tensor(DType::f32, {1 << 20, 1}));
  b.output(b.add(x, y, {1 << 20, 64}));
  EXPECT_MENTIONS(error_of(b), "[1048576, 64]");
}

}  // namespace
}  // namespace nibble
