// Rewrites of a language model's layers, each alone: linears, attention, norms.
#include "support/passes.hpp"

namespace nibble {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

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
    run(gate_up, f.b.graph);
    ASSERT_EQ(names_of(f.b.graph), (Names{"nibble.linear_q4gsw_gated"}));
    EXPECT_EQ(f.b.graph.nodes[0].name(), "et_vk.linear_q4gsw.default");
    const auto& args = f.b.graph.nodes[0].args;
    EXPECT_EQ(args[0], f.x);
    EXPECT_EQ(args.back(), f.out);
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
  run(gate_up, f.b.graph);
  EXPECT_EQ(f.b.graph.nodes.size(), 5U);
}

TEST(Passes, linears_with_8_bit_activations_round_their_input_once) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f16, {4, 64}));
  const auto scales = b.tensor(DType::f32, {4});
  const auto zero_points = b.tensor(DType::i8, {4});
  add_node(b, "torchao.choose_qparams_affine.default", {x}, b.list({scales, zero_points}));
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
  run(round_inputs, alone);
  EXPECT_EQ(std::ranges::count(names_of(alone), "nibble.round_rows"), 3);
  EXPECT_EQ(std::ranges::count(names_of(alone), "et_vk.linear_q4gsw.default"), 3);
  ASSERT_TRUE(run_all(b.graph));
  EXPECT_EQ(names_of(b.graph),
            (Names{"torchao.choose_qparams_affine.default", "nibble.round_rows", "nibble.linear_q4gsw_parts"}));
  EXPECT_EQ(b.graph.tensor(b.graph.nodes[1].args[3])->dtype, DType::f32) << "what is rounded is not rounded again";
  for (auto n : {1, 2})
    EXPECT_EQ(b.graph.nodes[n].name(), "et_vk.linear_dq8ca_q4gsw.default") << "as the program has it";
}

TEST(Passes, very_many_linears_of_their_own_and_as_many_dead_nodes_are_no_trouble) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {4, 64}));
  auto used = x;
  auto unused = x;
  for (std::size_t i = 0; i < kVeryManyNodes; ++i) {
    used = linear(b, used, 64, 64);
    unused = unary(b, "aten.sigmoid.default", unused);
  }
  b.output(used);
  ASSERT_TRUE(run_all(b.graph));
  EXPECT_EQ(b.graph.nodes.size(), kVeryManyNodes);
}

TEST(Passes, joined_scales_must_fit_one_buffer) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {3, 64}));
  for (int i = 0; i < 3; ++i) b.output(linear(b, x, 64, 64, 4));  // 2 KB of nibbles, 4 KB of scales
  run(join_linears, b.graph, 3 * 4096 - 1);
  EXPECT_EQ(b.graph.nodes.size(), 3U);
  run(join_linears, b.graph, 3 * 4096);
  EXPECT_EQ(b.graph.nodes.size(), 1U);
}

TEST(Passes, joined_weights_must_fit_one_buffer) {
  auto f = feed_forward(false);
  run(gate_up, f.b.graph, 128 * 64 - 1);
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
  run(join_linears, a.b.graph);
  ASSERT_EQ(a.b.graph.nodes[0].op, "nibble.linear_q4gsw_parts");
  ASSERT_EQ(a.b.graph.nodes.size(), 6U);
  const auto& args = a.b.graph.nodes[0].args;
  EXPECT_EQ(a.b.graph.tensor(args[1])->shape, (Shape{256, 64}));
  EXPECT_EQ(std::get<IntList>(a.b.graph.values[args[4]]), (IntList{128, 64, 64}));
  EXPECT_EQ(std::get<ValueList>(a.b.graph.values[args.back()]).items.size(), 3U);
}

TEST(Passes, a_weight_that_is_used_twice_is_not_joined) {
  auto a = attention(false);
  // The second weight has the bytes of the first: stored once, it must stay where it is.
  a.b.graph.constants[2].key = a.b.graph.constants[0].key;
  run(join_linears, a.b.graph);
  EXPECT_EQ(std::ranges::count(names_of(a.b.graph), "et_vk.linear_q4gsw.default"), 3);
}

TEST(Passes, a_width_that_is_no_multiple_of_four_is_not_joined) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {3, 128}));
  b.output(linear(b, x, 128, 66));
  b.output(linear(b, x, 128, 64));
  run(join_linears, b.graph);
  EXPECT_EQ(b.graph.nodes.size(), 2U);
}

TEST(Passes, rotation_and_cache_write_become_one) {
  for (const bool hf : {false, true}) {
    auto a = attention(hf);
    run(rope_cache, a.b.graph);
    const auto names = names_of(a.b.graph);
    ASSERT_EQ(names.size(), 8U);
    EXPECT_EQ(names[6], "nibble.rope_update_cache");
    EXPECT_EQ(a.b.graph.nodes[6].name(), "sdpa_with_kv_cache.default") << "errors name what the program has";
    EXPECT_EQ(names[7], "llama.custom_sdpa.default");
    const auto& rope = a.b.graph.nodes[6].args;
    EXPECT_EQ((std::vector{rope[0], rope[1], rope[2]}), (std::vector{a.q, a.k, a.v}));
    EXPECT_EQ(rope[10], a.q_rotated);
    EXPECT_EQ(std::get<bool>(a.b.graph.values[rope[9]]), hf);
    EXPECT_EQ(a.b.graph.nodes[7].args[0], a.q_rotated);
    EXPECT_EQ(a.b.graph.nodes[7].args[8], a.out);
  }
}

TEST(Passes, a_rotation_that_others_read_stays) {
  auto a = attention(false);
  a.b.output(a.q_rotated);
  run(rope_cache, a.b.graph);
  EXPECT_EQ(std::ranges::count(names_of(a.b.graph), "nibble.rope_update_cache"), 0);
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
  bind(b.graph);
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
  run(add_rms_norm, b.graph);
  ASSERT_EQ(names_of(b.graph), (Names{"nibble.add_rms_norm", "aten.exp.default"}));
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
    run(add_rms_norm, b.graph);
    EXPECT_EQ(b.graph.nodes.size(), 2U);
  }
}

}  // namespace
}  // namespace nibble
