// Graph rewrites, each alone: what it makes of a pattern, and what it leaves alone.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/passes/passes.hpp"
#include "support/graph_builder.hpp"

namespace nibble {
namespace {

using test::GraphBuilder;

PassContext context(std::uint64_t max_constant_bytes = 1 << 20) {
  return {[](std::string_view op) -> std::uint32_t {
            return op == "sdpa_with_kv_cache.default" ? 0b11000 : op == "test.write" ? 0b1 : 0;
          },
          max_constant_bytes};
}

std::vector<std::string> ops(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes) names.push_back(node.op);
  return names;
}
using Names = std::vector<std::string>;

ValueId linear(GraphBuilder& b, ValueId x, std::int64_t k, std::int64_t n, std::int64_t group = 32) {
  const auto weight = b.constant(DType::u8, {n, k / 2}, "weight" + std::to_string(b.graph.values.size()));
  const auto scales = b.constant(DType::f32, {k / group, n}, "scales" + std::to_string(b.graph.values.size()));
  Shape shape = b.graph.tensor(x)->shape;
  shape[shape.rank() - 1] = n;
  const auto out = b.tensor(DType::f32, shape);
  b.op("et_vk.linear_q4gsw.default", {x, weight, scales, b.integer(group), b.null(), out});
  return out;
}

ValueId unary(GraphBuilder& b, std::string op, ValueId x) {
  const auto out = b.tensor(DType::f32, b.graph.tensor(x)->shape);
  b.op(std::move(op), {x, out});
  return out;
}

ValueId mul(GraphBuilder& b, ValueId x, ValueId y) {
  const auto out = b.tensor(DType::f32, b.graph.tensor(x)->shape);
  b.op("aten.mul.Tensor", {x, y, out});
  return out;
}

TEST(Passes, have_names_and_refuse_others) {
  Graph graph;
  const std::vector<std::string> known = {"views", "dead_values"};
  EXPECT_TRUE(run_passes(graph, context(), known));
  const std::vector<std::string> unknown = {"veiws"};
  const auto status = run_passes(graph, context(), unknown);
  ASSERT_FALSE(status);
  EXPECT_EQ(
      status.error().message,
      "there is no pass 'veiws'; the passes are views, round_inputs, common_subexpressions, dead_values, gate_up, "
      "join_linears, add_rms_norm, rope_cache");
}

TEST(Passes, views_that_change_no_shape_go) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 8}));
  const auto same = b.view(x, {2, 8});
  const auto other = b.view(same, {4, 4});
  b.output(unary(b, "aten.sigmoid.default", other));
  drop_views(b.graph, context());
  EXPECT_EQ(ops(b.graph), (Names{"aten.view_copy.default", "aten.sigmoid.default"}));
  EXPECT_EQ(b.graph.nodes[0].args[0], x);
}

TEST(Passes, a_view_with_one_dynamic_size_goes_and_with_two_stays) {
  for (const bool two : {false, true}) {
    GraphBuilder b;
    const auto x = b.input(b.tensor(DType::f32, {8, 8}));
    const auto out = b.tensor(DType::f32, {8, 8});
    b.op("aten.view_copy.default", {x, b.list({b.symint(), two ? b.symint() : b.integer(8)}), out});
    b.output(unary(b, "aten.sigmoid.default", out));
    drop_views(b.graph, context());
    EXPECT_EQ(b.graph.nodes.size(), two ? 2U : 1U);
  }
}

TEST(Passes, a_view_of_what_is_written_later_stays) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 8}));
  const auto view = b.view(x, {2, 8});
  b.op("test.write", {x, b.tensor(DType::f32, {1})});
  b.output(unary(b, "aten.sigmoid.default", view));
  drop_views(b.graph, context());
  EXPECT_EQ(b.graph.nodes.size(), 3U);
}

TEST(Passes, a_view_that_is_an_output_stays) {
  GraphBuilder b;
  b.output(b.view(b.input(b.tensor(DType::f32, {2, 8})), {2, 8}));
  drop_views(b.graph, context());
  EXPECT_EQ(b.graph.nodes.size(), 1U);
}

TEST(Passes, the_same_of_the_same_is_computed_once) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 8}));
  std::vector<ValueId> scales;
  for (int i = 0; i < 3; ++i) {
    scales.push_back(b.tensor(DType::f32, {2}));
    // Arguments of their own with the same contents, as the exporter writes them.
    b.op("torchao.choose_qparams_affine.default",
         {x, b.value(std::string("ASYMMETRIC")), b.ints({1, 8}), b.list({scales.back(), b.tensor(DType::i8, {2})})});
  }
  b.output(unary(b, "aten.sigmoid.default", scales[1]));
  b.output(unary(b, "aten.sigmoid.default", scales[2]));
  b.output(unary(b, "aten.exp.default", scales[2]));
  common_subexpressions(b.graph, context());
  EXPECT_EQ(ops(b.graph), (Names{"torchao.choose_qparams_affine.default", "aten.sigmoid.default",
                                 "aten.sigmoid.default", "aten.exp.default"}));
  for (std::size_t n = 1; n < 4; ++n) EXPECT_EQ(b.graph.nodes[n].args[0], scales[0]);
}

TEST(Passes, chains_of_common_subexpressions_fold) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {2, 8}));
  const auto a = unary(b, "aten.exp.default", unary(b, "aten.sigmoid.default", x));
  const auto c = unary(b, "aten.exp.default", unary(b, "aten.sigmoid.default", x));
  b.output(mul(b, a, c));
  common_subexpressions(b.graph, context());
  EXPECT_EQ(ops(b.graph), (Names{"aten.sigmoid.default", "aten.exp.default", "aten.mul.Tensor"}));
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
    b.op("aten._to_copy.default", {x, out});
    b.op("aten.neg.default", {out, b.tensor(dtype, {2, 8})});
    b.output(b.graph.nodes.back().args[1]);
  }
  common_subexpressions(b.graph, context());
  EXPECT_EQ(b.graph.nodes.size(), 8U);
}

struct FeedForward {
  GraphBuilder b;
  ValueId x;
  ValueId out;
};

FeedForward feed_forward(bool turned, std::int64_t up_width = 64) {
  FeedForward f;
  f.x = f.b.input(f.b.tensor(DType::f32, {1, 3, 128}));
  const auto gate = linear(f.b, f.x, 128, 64);
  const auto sigmoid = unary(f.b, "aten.sigmoid.default", gate);
  const auto silu = turned ? mul(f.b, sigmoid, gate) : mul(f.b, gate, sigmoid);
  const auto up = linear(f.b, f.x, 128, up_width);
  f.out = turned ? mul(f.b, up, silu) : mul(f.b, silu, up);
  f.b.output(f.out);
  return f;
}

TEST(Passes, gate_and_up_become_one_linear) {
  for (const bool turned : {false, true}) {
    auto f = feed_forward(turned);
    gate_up(f.b.graph, context());
    ASSERT_EQ(ops(f.b.graph), (Names{"nibble.linear_q4gsw_gated"}));
    EXPECT_EQ(f.b.graph.nodes[0].name(), "et_vk.linear_q4gsw.default");
    const auto& args = f.b.graph.nodes[0].args;
    EXPECT_EQ(args[0], f.x);
    EXPECT_EQ(args[6], f.out);
    const auto& weight = *f.b.graph.tensor(args[1]);
    EXPECT_EQ(weight.shape, (Shape{128, 64}));
    EXPECT_EQ(f.b.graph.constants[weight.constant].parts, (std::vector<std::uint32_t>{0, 2}));
    EXPECT_EQ(f.b.graph.constants[weight.constant].length, 128U * 64U);
    EXPECT_EQ(f.b.graph.tensor(args[2])->shape, (Shape{2 * 4 * 64}));
    EXPECT_EQ(std::get<IntList>(f.b.graph.values[args[4]]), (IntList{64, 64}));
    EXPECT_EQ(std::get<IntList>(f.b.graph.values[args[5]]), (IntList{64, 64}));
  }
}

TEST(Passes, a_gate_that_others_read_stays) {
  auto f = feed_forward(false);
  f.b.output(f.b.graph.nodes[0].args[5]);
  gate_up(f.b.graph, context());
  EXPECT_EQ(f.b.graph.nodes.size(), 5U);
}

TEST(Passes, linears_with_8_bit_activations_round_their_input_once) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f16, {4, 64}));
  const auto scales = b.tensor(DType::f32, {4});
  const auto zero_points = b.tensor(DType::i8, {4});
  b.op("torchao.choose_qparams_affine.default", {x, b.list({scales, zero_points})});
  for (int i = 0; i < 3; ++i) {
    const auto tag = std::to_string(i);
    const auto weight = b.constant(DType::u8, {16, 32}, "weight" + tag);
    const auto weight_scales = b.constant(DType::f32, {2, 16}, "scales" + tag);
    const auto sums = b.constant(DType::f32, {2, 16}, "sums" + tag);
    const auto out = b.tensor(DType::f16, {4, 16});
    b.op("et_vk.linear_dq8ca_q4gsw.default",
         {x, scales, zero_points, weight, sums, weight_scales, b.integer(32), b.null(), out});
    b.output(out);
  }
  Graph alone = b.graph;
  round_inputs(alone, context());
  EXPECT_EQ(std::ranges::count(ops(alone), "nibble.round_rows"), 3);
  EXPECT_EQ(std::ranges::count(ops(alone), "et_vk.linear_q4gsw.default"), 3);
  ASSERT_TRUE(run_passes(b.graph, context(), {}));
  EXPECT_EQ(ops(b.graph),
            (Names{"torchao.choose_qparams_affine.default", "nibble.round_rows", "nibble.linear_q4gsw_parts"}));
  EXPECT_EQ(b.graph.tensor(b.graph.nodes[1].args[3])->dtype, DType::f32) << "what is rounded is not rounded again";
  for (auto n : {1, 2})
    EXPECT_EQ(b.graph.nodes[n].name(), "et_vk.linear_dq8ca_q4gsw.default") << "as the program has it";
}

// A file of a few megabytes has so many nodes: the work must not grow with their square.
TEST(Passes, a_hundred_thousand_nodes_are_no_trouble) {
  constexpr std::size_t kNodes = 100000;
  GraphBuilder b;
  const auto group = b.integer(32);
  const auto none = b.null();
  const auto weight = b.constant(DType::u8, {16, 32}, "weight");
  const auto scales = b.constant(DType::f32, {2, 16}, "scales");
  auto x = b.input(b.tensor(DType::f32, {4, 16}));
  for (std::size_t i = 0; i < kNodes; ++i) {
    const auto out = b.tensor(DType::f32, {4, 16});
    b.op("et_vk.linear_dq8ca_q4gsw.default", {x, scales, scales, weight, scales, scales, group, none, out});
    x = out;
  }
  b.output(x);
  ASSERT_TRUE(run_passes(b.graph, context(), {}));
  EXPECT_EQ(b.graph.nodes.size(), 2 * kNodes);
}

TEST(Passes, a_hundred_thousand_linears_of_their_own_and_as_many_dead_nodes_are_no_trouble) {
  constexpr std::size_t kNodes = 100000;
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {4, 64}));
  auto used = x;
  auto unused = x;
  for (std::size_t i = 0; i < kNodes; ++i) {
    used = linear(b, used, 64, 64);
    unused = unary(b, "aten.sigmoid.default", unused);
  }
  b.output(used);
  ASSERT_TRUE(run_passes(b.graph, context(), {}));
  EXPECT_EQ(b.graph.nodes.size(), kNodes);
}

TEST(Passes, joined_scales_must_fit_one_buffer) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {3, 64}));
  for (int i = 0; i < 3; ++i) b.output(linear(b, x, 64, 64, 4));  // 2 KB of nibbles, 4 KB of scales
  join_linears(b.graph, context(3 * 4096 - 1));
  EXPECT_EQ(b.graph.nodes.size(), 3U);
  join_linears(b.graph, context(3 * 4096));
  EXPECT_EQ(b.graph.nodes.size(), 1U);
}

TEST(Passes, joined_weights_must_fit_one_buffer) {
  auto f = feed_forward(false);
  gate_up(f.b.graph, context(128 * 64 - 1));
  EXPECT_EQ(f.b.graph.nodes.size(), 5U);
}

struct Attention {
  GraphBuilder b;
  ValueId x, q, k, v, q_rotated, out;
};

Attention attention(bool hf) {
  Attention a;
  a.x = a.b.input(a.b.tensor(DType::f32, {1, 3, 128}));
  const auto start = a.b.symint();
  const auto q = linear(a.b, a.x, 128, 128);
  const auto k = linear(a.b, a.x, 128, 64);
  const auto v = linear(a.b, a.x, 128, 64);
  a.q = a.b.view(q, {1, 3, 4, 32});
  a.k = a.b.view(k, {1, 3, 2, 32});
  a.v = a.b.view(v, {1, 3, 2, 32});
  const auto cos = a.b.constant(DType::f32, {16, hf ? 32 : 16}, "cos");
  const auto sin = a.b.constant(DType::f32, {16, hf ? 32 : 16}, "sin");
  a.q_rotated = a.b.tensor(DType::f32, {1, 3, 4, 32});
  const auto k_rotated = a.b.tensor(DType::f32, {1, 3, 2, 32});
  const auto both = a.b.list({a.q_rotated, k_rotated});
  if (hf) {
    a.b.op("et_vk.apply_rotary_emb_hf.default", {a.q, a.k, cos, sin, start, both});
  } else {
    a.b.op("et_vk.apply_rotary_emb.default", {a.q, a.k, cos, sin, both});
  }
  const auto k_cache = a.b.constant(DType::f32, {1, 16, 2, 32});
  const auto v_cache = a.b.constant(DType::f32, {1, 16, 2, 32});
  a.out = a.b.tensor(DType::f32, {1, 3, 4, 32});
  a.b.op("sdpa_with_kv_cache.default", {a.q_rotated, k_rotated, a.v, k_cache, v_cache, start, a.b.integer(1),
                                        a.b.null(), a.b.number(0), a.b.boolean(true), a.b.null(), a.out});
  a.b.output(a.out);
  return a;
}

TEST(Passes, q_k_and_v_become_one_linear) {
  auto a = attention(false);
  join_linears(a.b.graph, context());
  ASSERT_EQ(a.b.graph.nodes[0].op, "nibble.linear_q4gsw_parts");
  ASSERT_EQ(a.b.graph.nodes.size(), 6U);
  const auto& args = a.b.graph.nodes[0].args;
  EXPECT_EQ(a.b.graph.tensor(args[1])->shape, (Shape{256, 64}));
  EXPECT_EQ(std::get<IntList>(a.b.graph.values[args[4]]), (IntList{128, 64, 64}));
  EXPECT_EQ(std::get<ValueList>(a.b.graph.values[args[6]]).items.size(), 3U);
}

TEST(Passes, a_weight_that_is_used_twice_is_not_joined) {
  auto a = attention(false);
  // The second weight has the bytes of the first: stored once, it must stay where it is.
  a.b.graph.constants[2].key = a.b.graph.constants[0].key;
  join_linears(a.b.graph, context());
  EXPECT_EQ(std::ranges::count(ops(a.b.graph), "et_vk.linear_q4gsw.default"), 3);
}

TEST(Passes, a_width_that_is_no_multiple_of_four_is_not_joined) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {3, 128}));
  b.output(linear(b, x, 128, 66));
  b.output(linear(b, x, 128, 64));
  join_linears(b.graph, context());
  EXPECT_EQ(b.graph.nodes.size(), 2U);
}

TEST(Passes, rotation_and_cache_write_become_one) {
  for (const bool hf : {false, true}) {
    auto a = attention(hf);
    rope_cache(a.b.graph, context());
    const auto names = ops(a.b.graph);
    ASSERT_EQ(names.size(), 8U);
    EXPECT_EQ(names[6], "nibble.rope_update_cache");
    EXPECT_EQ(a.b.graph.nodes[6].name(), "sdpa_with_kv_cache.default") << "errors name what the program has";
    EXPECT_EQ(names[7], "llama.custom_sdpa.default");
    const auto& rope = a.b.graph.nodes[6].args;
    EXPECT_EQ((std::vector{rope[0], rope[1], rope[2]}), (std::vector{a.q, a.k, a.v}));
    EXPECT_EQ(rope[10], a.q_rotated);
    EXPECT_EQ(std::get<std::int64_t>(a.b.graph.values[rope[9]]), hf ? 1 : 0);
    EXPECT_EQ(a.b.graph.nodes[7].args[0], a.q_rotated);
    EXPECT_EQ(a.b.graph.nodes[7].args[8], a.out);
  }
}

TEST(Passes, a_rotation_that_others_read_stays) {
  auto a = attention(false);
  a.b.output(a.q_rotated);
  rope_cache(a.b.graph, context());
  EXPECT_EQ(std::ranges::count(ops(a.b.graph), "nibble.rope_update_cache"), 0);
}

TEST(Passes, caches_that_only_cache_ops_touch_may_be_halves) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {1, 1, 4, 8}));
  const auto start = b.input(b.symint());
  std::vector<ValueId> caches;
  for (int i = 0; i < 2; ++i) {
    caches.push_back(b.constant(DType::f32, {1, 16, 4, 8}));
    b.op("update_cache.default", {x, caches.back(), start, b.tensor(DType::f32, {1})});
  }
  const auto out = b.tensor(DType::f32, {1, 1, 4, 8});
  b.op("llama.custom_sdpa.default",
       {x, caches[0], caches[1], start, b.null(), b.number(0), b.boolean(true), b.null(), out});
  b.output(out);
  b.output(caches[1]);
  f16_caches(b.graph);
  EXPECT_EQ(b.graph.tensor(caches[0])->dtype, DType::f16);
  EXPECT_EQ(b.graph.tensor(caches[1])->dtype, DType::f32) << "somebody else sees it";
}

TEST(Passes, a_sum_and_its_norm_become_one) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {3, 8}));
  const auto y = b.input(b.tensor(DType::f32, {3, 8}));
  const auto sum = b.add(x, y, {3, 8});
  b.output(unary(b, "aten.exp.default", sum));
  const auto out = b.tensor(DType::f32, {3, 8});
  b.op("et_vk.rms_norm.default", {sum, b.constant(DType::f32, {8}), b.number(1e-5), out});
  b.output(out);
  add_rms_norm(b.graph, context());
  ASSERT_EQ(ops(b.graph), (Names{"nibble.add_rms_norm", "aten.exp.default"}));
  EXPECT_EQ(std::get<ValueList>(b.graph.values[b.graph.nodes[0].args[4]]).items, (std::vector{sum, out}));
}

TEST(Passes, a_scaled_or_broadcast_sum_is_left_alone) {
  for (const bool scaled : {false, true}) {
    GraphBuilder b;
    const auto x = b.input(b.tensor(DType::f32, {3, 8}));
    const auto y = b.input(b.tensor(DType::f32, scaled ? Shape{3, 8} : Shape{1, 8}));
    const auto sum = b.tensor(DType::f32, {3, 8});
    b.op("aten.add.Tensor", {x, y, b.number(scaled ? 2 : 1), sum});
    const auto out = b.tensor(DType::f32, {3, 8});
    b.op("et_vk.rms_norm.default", {sum, b.constant(DType::f32, {8}), b.number(1e-5), out});
    b.output(out);
    add_rms_norm(b.graph, context());
    EXPECT_EQ(b.graph.nodes.size(), 2U);
  }
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
  dead_values(b.graph, context());
  EXPECT_EQ(ops(b.graph), (Names{"aten.native_layer_norm.default", "test.write"}));
  const auto& items = std::get<ValueList>(b.graph.values[outs]).items;
  EXPECT_EQ(items[0], out);
  EXPECT_TRUE(std::holds_alternative<Null>(b.graph.values[items[1]]));
  EXPECT_TRUE(std::holds_alternative<Null>(b.graph.values[items[2]]));
}

}  // namespace
}  // namespace nibble
