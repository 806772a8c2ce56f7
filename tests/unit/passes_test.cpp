// Graph rewrites, each alone: what it makes of a pattern, and what it leaves alone.
#include "support/passes.hpp"

namespace nibble {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

TEST(Passes, have_names_and_refuse_others) {
  Graph graph;
  const std::vector<std::string> known = {"views", "dead_values"};
  EXPECT_TRUE(run_all(graph, known));
  const std::vector<std::string> unknown = {"veiws"};
  const auto status = run_all(graph, unknown);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "there is no pass 'veiws'; the passes are views, batch_norm, round_inputs, common_subexpressions, "
            "quantize_pairs, offset_linears, dead_values, gate_up, join_linears, add_rms_norm, rope_cache, "
            "elementwise_chains, epilogues");
}

TEST(Passes, views_that_change_no_shape_go) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 8}));
  const auto same = b.view(x, {2, 8});
  const auto other = b.view(same, {4, 4});
  b.output(unary(b, "aten.sigmoid.default", other));
  run(drop_views, b.graph);
  EXPECT_EQ(names_of(b.graph), (Names{"aten.view_copy.default", "aten.sigmoid.default"}));
  EXPECT_EQ(b.graph.nodes[0].args[0], x);
}

TEST(Passes, a_view_with_one_dynamic_size_goes_and_with_two_stays) {
  for (const bool two : {false, true}) {
    GraphBuilder b;
    const auto x = b.input(b.tensor(DType::f32, {8, 8}));
    const auto out = b.tensor(DType::f32, {8, 8});
    b.op("aten.view_copy.default", {x, b.list({b.symint(), two ? b.symint() : b.integer(8)}), out});
    b.output(unary(b, "aten.sigmoid.default", out));
    run(drop_views, b.graph);
    EXPECT_EQ(b.graph.nodes.size(), two ? 2U : 1U);
  }
}

TEST(Passes, a_view_of_what_is_written_later_stays) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 8}));
  const auto view = b.view(x, {2, 8});
  b.op("test.write", {x, b.tensor(DType::f32, {1})});
  b.output(unary(b, "aten.sigmoid.default", view));
  run(drop_views, b.graph);
  EXPECT_EQ(b.graph.nodes.size(), 3U);
}

TEST(Passes, a_view_that_is_an_output_stays) {
  GraphBuilder b;
  b.output(b.view(b.input(b.tensor(DType::f32, {2, 8})), {2, 8}));
  run(drop_views, b.graph);
  EXPECT_EQ(b.graph.nodes.size(), 1U);
}

TEST(Passes, the_same_of_the_same_is_computed_once) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 8}));
  std::vector<ValueId> scales;
  for (int i = 0; i < 3; ++i) {
    scales.push_back(b.tensor(DType::f32, {2}));
    // Arguments of their own with the same contents, as the exporter writes them.
    add_node(b, "torchao.choose_qparams_affine.default", {x, b.value(std::string("ASYMMETRIC")), b.ints({1, 8})},
             b.list({scales.back(), b.tensor(DType::i8, {2})}));
  }
  b.output(unary(b, "aten.sigmoid.default", scales[1]));
  b.output(unary(b, "aten.sigmoid.default", scales[2]));
  b.output(unary(b, "aten.exp.default", scales[2]));
  run(common_subexpressions, b.graph);
  EXPECT_EQ(names_of(b.graph), (Names{"torchao.choose_qparams_affine.default", "aten.sigmoid.default",
                                      "aten.sigmoid.default", "aten.exp.default"}));
  for (std::size_t n = 1; n < 4; ++n) EXPECT_EQ(b.graph.nodes[n].args[0], scales[0]);
}

TEST(Passes, chains_of_common_subexpressions_fold) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 8}));
  const auto a = unary(b, "aten.exp.default", unary(b, "aten.sigmoid.default", x));
  const auto c = unary(b, "aten.exp.default", unary(b, "aten.sigmoid.default", x));
  b.output(mul(b, a, c));
  run(common_subexpressions, b.graph);
  EXPECT_EQ(names_of(b.graph), (Names{"aten.sigmoid.default", "aten.exp.default", "aten.mul.Tensor"}));
  EXPECT_EQ(b.graph.nodes[2].args[0], b.graph.nodes[2].args[1]);
}

TEST(Passes, what_differs_is_computed_twice) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 8}));
  for (const std::int64_t dim : {0, 1}) {
    const auto out = b.tensor(DType::f32, {8});
    b.op("aten.amax.default", {x, b.ints({dim}), b.boolean(false), out});
    b.output(unary(b, "aten.exp.default", out));
  }
  // Of one op and one input, but into another type.
  for (const auto dtype : {DType::f16, DType::i32}) {
    const auto out = b.tensor(dtype, {2, 8});
    add_node(b, "aten._to_copy.default", {x}, out);
    b.op("aten.neg.default", {out, b.tensor(dtype, {2, 8})});
    b.output(b.graph.nodes.back().args[1]);
  }
  run(common_subexpressions, b.graph);
  EXPECT_EQ(b.graph.nodes.size(), 8U);
}

TEST(Passes, very_many_nodes_are_no_trouble) {
  GraphBuilder b;
  const auto group = b.integer(32);
  const auto none = b.null();
  const auto weight = b.constant(DType::u8, {16, 32}, "weight");
  const auto scales = b.constant(DType::f32, {2, 16}, "scales");
  auto x = b.input(b.tensor(DType::f32, {4, 16}));
  for (std::size_t i = 0; i < kVeryManyNodes; ++i) {
    const auto out = b.tensor(DType::f32, {4, 16});
    b.op("et_vk.linear_dq8ca_q4gsw.default", {x, scales, scales, weight, scales, scales, group, none, out});
    x = out;
  }
  b.output(x);
  ASSERT_TRUE(run_all(b.graph));
  EXPECT_EQ(b.graph.nodes.size(), 2 * kVeryManyNodes);
}

TEST(Passes, what_nobody_reads_goes) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {3, 8}));
  unary(b, "aten.exp.default", unary(b, "aten.sigmoid.default", x));
  const auto out = b.tensor(DType::f32, {3, 8});
  const auto outs = b.list({out, b.tensor(DType::f32, {3, 1}), b.tensor(DType::f32, {3, 1})});
  b.op("aten.native_layer_norm.default", {x, b.ints({8}), b.null(), b.null(), b.number(1e-5), outs});
  b.op("test.write", {x, b.tensor(DType::f32, {1})});
  b.output(out);
  run(dead_values, b.graph);
  EXPECT_EQ(names_of(b.graph), (Names{"aten.native_layer_norm.default", "test.write"}));
  const auto& items = std::get<ValueList>(b.graph.values[outs]).items;
  EXPECT_EQ(items[0], out);
  EXPECT_TRUE(std::holds_alternative<Null>(b.graph.values[items[1]]));
  EXPECT_TRUE(std::holds_alternative<Null>(b.graph.values[items[2]]));
}

}  // namespace
}  // namespace nibble
