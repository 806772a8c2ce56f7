// Rewrites that make fewer dispatches of elementwise ops, norms and bytes: what they join, and what they leave alone.
#include "support/passes.hpp"
#include "support/planning.hpp"

namespace nibble {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

std::vector<std::size_t> tails_of(const Graph& graph) {
  std::vector<std::size_t> sizes;
  for (const auto& node : graph.nodes) sizes.push_back(node.tail.size());
  return sizes;
}
using Sizes = std::vector<std::size_t>;

std::size_t dispatches(const GraphBuilder& b, std::vector<std::string> without = {}) {
  const auto plan = make(b, {}, {.without_passes = std::move(without)});
  EXPECT_TRUE(plan) << plan.error().message;
  if (!plan) return 0;
  Stepper stepper(*plan);
  EXPECT_TRUE(stepper.update());
  return stepper.dispatches().size();
}

ValueId fixed(GraphBuilder& b, Shape shape, DType dtype = DType::f32) {
  const auto x = b.input(b.tensor(dtype, shape));
  b.graph.tensor(x)->fixed = true;
  return x;
}

struct Convolution {
  ValueId x, out;
};

/// Of 8 channels to 8, with filters of 3 by 3.
Convolution convolution(GraphBuilder& b, ValueId x, std::int64_t stride = 1, bool transposed = false,
                        std::int64_t groups = 1) {
  const auto size = b.graph.tensor(x)->shape[2];
  const auto out = b.tensor(b.graph.tensor(x)->dtype, {1, 8, (size - 1) / stride + 1, (size - 1) / stride + 1});
  const auto weight = b.constant(DType::f32, {8, 8 / groups, 3, 3}, "filter" + std::to_string(out));
  b.op("aten.convolution.default", {x, weight, b.null(), b.ints({stride, stride}), b.ints({1, 1}), b.ints({1, 1}),
                                    b.boolean(transposed), b.ints({0, 0}), b.integer(groups), out});
  return {x, out};
}

ValueId batch_norm_of(GraphBuilder& b, ValueId x) {
  const Shape shape = b.graph.tensor(x)->shape;
  const auto out = b.tensor(DType::f32, shape);
  const auto row = [&](const char* key) { return b.constant(DType::f32, {shape[1]}, key + std::to_string(out)); };
  b.op("aten._native_batch_norm_legit_no_training.default",
       {x, row("weight"), row("bias"), row("mean"), row("variance"), b.number(0.1), b.number(1e-5),
        b.list({out, b.tensor(DType::f32, {0}), b.tensor(DType::f32, {0})})});
  return out;
}

TEST(Chains, of_ops_that_read_each_other_are_one_node) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 3, 8}));
  const auto row = b.input(b.tensor(DType::f32, {8}));
  const auto sum = b.add(x, row, {2, 3, 8});
  // Both readers of the sum are in the chain.
  b.output(mul(b, sum, unary(b, "aten.sigmoid.default", sum)));
  EXPECT_EQ(dispatches(b, {"elementwise_chains"}), 3U);
  EXPECT_EQ(dispatches(b), 1U);
  run(elementwise_chains, b.graph);
  EXPECT_EQ(tails_of(b.graph), (Sizes{2}));
  EXPECT_EQ(b.graph.nodes[0].name(), "aten.add.Tensor");
  EXPECT_EQ(b.graph.nodes[0].out(), b.graph.outputs[0]);
}

TEST(Chains, leave_what_others_read) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 8}));
  const auto once = unary(b, "aten.exp.default", x);
  b.output(once);
  const auto twice = unary(b, "aten.exp.default", once);
  const auto sum = b.tensor(DType::f32, {2});
  b.op("aten.amax.default", {twice, b.ints({1}), b.boolean(false), sum});
  b.output(sum);
  b.output(unary(b, "aten.abs.default", twice));
  run(elementwise_chains, b.graph);
  EXPECT_EQ(tails_of(b.graph), (Sizes{0, 0, 0, 0}));
}

TEST(Chains, leave_integers_small_operands_and_constants) {
  GraphBuilder b;
  const auto i = b.input(b.tensor(DType::i32, {8}));
  b.output(b.add(b.add(i, i, {8}, DType::i32), i, {8}, DType::i32));
  // What is repeated is not computed again for each element.
  const auto small = unary(b, "aten.exp.default", b.input(b.tensor(DType::f32, {1, 8})));
  b.output(b.add(b.input(b.tensor(DType::f32, {4, 8})), small, {4, 8}));
  // What depends on constants alone is computed at load.
  const auto known = unary(b, "aten.exp.default", b.constant(DType::f32, {4, 8}, "c"));
  b.output(b.add(b.graph.inputs[2], known, {4, 8}));
  run(elementwise_chains, b.graph);
  EXPECT_EQ(tails_of(b.graph), Sizes(6));
}

TEST(Chains, have_as_many_operands_as_a_kernel_can_read) {
  GraphBuilder b;
  auto v = b.input(b.tensor(DType::f32, {4, 8}));
  for (int n = 0; n < 12; ++n) v = b.add(v, b.input(b.tensor(DType::f32, {n % 2 == 0 ? 4 : 1, 8})), {4, 8});
  b.output(v);
  EXPECT_EQ(dispatches(b), 3U);
  run(elementwise_chains, b.graph);
  EXPECT_EQ(tails_of(b.graph), (Sizes{1, 4, 4}));
}

TEST(Chains, do_not_move_past_a_write) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 8}));
  const auto e = unary(b, "aten.exp.default", x);
  b.op("test.write", {x, b.tensor(DType::f32, {1})});
  b.output(unary(b, "aten.abs.default", e));
  run(elementwise_chains, b.graph);
  EXPECT_EQ(b.graph.nodes.size(), 3U);
}

TEST(Chains, name_the_op_that_is_wrong) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 3}));
  b.output(b.add(unary(b, "aten.exp.default", x), b.input(b.tensor(DType::f32, {2})), {2, 3}));
  EXPECT_EQ(error_of(b), "aten.add.Tensor: shapes [2, 3] and [2] do not broadcast");
}

TEST(Epilogues, of_a_convolution_are_a_residual_and_an_activation) {
  for (const bool is_fixed : {true, false}) {
    GraphBuilder b;
    const auto x = is_fixed ? fixed(b, {1, 8, 6, 6}) : b.input(b.tensor(DType::f32, {1, 8, 6, 6}));
    const auto one = convolution(b, x).out;
    const auto sum = b.add(convolution(b, unary(b, "aten.relu.default", one)).out, x, {1, 8, 6, 6});
    b.output(unary(b, "aten.hardswish.default", sum));
    // Each convolution lays out its pixels first.
    EXPECT_EQ(dispatches(b), 4U);
    EXPECT_EQ(dispatches(b, {"epilogues"}), 6U);
    EXPECT_EQ(dispatches(b, {"epilogues", "elementwise_chains"}), 7U);
  }
}

TEST(Epilogues, leave_sizes_that_may_differ) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {1, 8, 6, 6}));
  b.output(b.add(convolution(b, x).out, b.input(b.tensor(DType::f32, {1, 8, 6, 6})), {1, 8, 6, 6}));
  b.output(b.add(convolution(b, x, 2).out, convolution(b, x, 2).out, {1, 8, 3, 3}));
  b.output(b.add(convolution(b, x).out, b.constant(DType::f32, {8, 1, 1}, "c"), {1, 8, 6, 6}));
  run(epilogues, b.graph);
  EXPECT_EQ(tails_of(b.graph), (Sizes{0, 0, 0, 1, 0, 0}));
}

TEST(Epilogues, follow_products_and_reductions) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {5, 8}));
  const auto product = b.tensor(DType::f32, {5, 16});
  b.op("aten.linear.default", {x, b.constant(DType::f32, {16, 8}, "w"), b.null(), product});
  const auto gelu = b.tensor(DType::f32, {5, 16});
  b.op("aten.gelu.default", {product, b.value(std::string("none")), gelu});
  const auto mean = b.tensor(DType::f32, {5, 1});
  b.op("aten.mean.dim", {gelu, b.ints({1}), b.boolean(true), b.null(), mean});
  const auto root = b.tensor(DType::f32, {5, 1});
  b.op("aten.pow.Tensor_Scalar", {mean, b.number(0.5), root});
  b.output(root);
  run(epilogues, b.graph);
  EXPECT_EQ(tails_of(b.graph), (Sizes{1, 1}));
}

TEST(Epilogues, leave_constants_in_shards) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {5, 8}));
  const auto product = b.tensor(DType::f32, {5, 16});
  b.op("aten.linear.default", {x, b.constant(DType::f32, {16, 8}, "w"), b.null(), product});
  b.output(unary(b, "aten.relu.default", product));
  run(epilogues, b.graph, 256);
  EXPECT_EQ(tails_of(b.graph), (Sizes{0, 0}));
}

TEST(BatchNorm, becomes_part_of_the_convolution_before_it) {
  for (const std::int64_t groups : {1, 8}) {
    GraphBuilder b;
    b.output(
        unary(b, "aten.relu.default", batch_norm_of(b, convolution(b, fixed(b, {1, 8, 6, 6}), 1, false, groups).out)));
    EXPECT_EQ(dispatches(b), groups == 1 ? 2U : 1U);
    EXPECT_EQ(dispatches(b, {"batch_norm"}), groups == 1 ? 4U : 3U);
    run(batch_norm, b.graph);
    EXPECT_EQ(names_of(b.graph), (Names{"aten.zeros_like.default", "nibble.fold_norm", "nibble.fold_norm",
                                        "aten.convolution.default", "aten.relu.default"}));
  }
}

TEST(BatchNorm, stays_where_others_read_the_convolution_or_channels_are_in_groups) {
  GraphBuilder b;
  const auto x = fixed(b, {1, 8, 6, 6});
  const auto shared = convolution(b, x).out;
  b.output(shared);
  b.output(batch_norm_of(b, shared));
  b.output(batch_norm_of(b, convolution(b, x, 1, true, 2).out));
  b.output(batch_norm_of(b, x));
  run(batch_norm, b.graph);
  EXPECT_EQ(b.graph.nodes.size(), 5U);
}

ValueId quantize(GraphBuilder& b, ValueId x, double scale, std::int64_t least = -128) {
  const auto out = b.tensor(DType::i8, b.graph.tensor(x)->shape);
  add_node(b, "quantized_decomposed.quantize_per_tensor.default",
           {x, b.number(scale), b.integer(3), b.integer(least), b.integer(127)}, out);
  return out;
}

ValueId dequantize(GraphBuilder& b, ValueId x, double scale) {
  const auto out = b.tensor(DType::f32, b.graph.tensor(x)->shape);
  add_node(b, "quantized_decomposed.dequantize_per_tensor.default",
           {x, b.number(scale), b.integer(3), b.integer(-128), b.integer(127)}, out);
  return out;
}

TEST(QuantizePairs, that_give_every_byte_back_go) {
  for (const auto& [scale, least, is_gone] :
       {std::tuple{0.1, -128, true}, {0.2, -128, false}, {0.1, -127, false}, {0.0, -128, false}}) {
    GraphBuilder b;
    const auto x = b.input(b.tensor(DType::i8, {2, 8}));
    const auto first = scale == 0 ? 0.0 : 0.1;
    b.output(dequantize(b, quantize(b, dequantize(b, x, first), scale, least), 0.1));
    run(quantize_pairs, b.graph);
    EXPECT_EQ(b.graph.nodes.size(), is_gone ? 2U : 3U) << scale << " " << least;
    EXPECT_EQ(b.graph.nodes[1].args[0] == x, is_gone);
  }
}

TEST(Chains, take_bytes_in_and_give_bytes_out) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::i8, {2, 9}));
  const auto other = b.input(b.tensor(DType::i8, {9}));
  const auto sum = b.add(dequantize(b, x, 0.1), dequantize(b, quantize(b, dequantize(b, x, 0.2), 0.3), 0.1), {2, 9});
  b.output(quantize(b, unary(b, "aten.relu.default", b.add(sum, dequantize(b, other, 0.5), {2, 9})), 0.2));
  EXPECT_EQ(dispatches(b), 2U);
}

}  // namespace
}  // namespace nibble
