// 4-bit linears with an offset for each group: when the pass makes one op of them, and when it must not.
#include "support/passes.hpp"

namespace nibble {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

constexpr std::string_view kWithOffsets = "nibble.linear_q4gsw_offset";

/// How a program writes down what is to be found.
struct Written {
  std::int64_t group = 32;
  std::int64_t summed = 32;  ///< so many of x
  std::int64_t sum_dim = -1;
  bool keepdim = false;
  bool is_flat = true;     ///< the product is of matrices, with views before and behind it
  bool is_turned = false;  ///< the product is the sum's first operand
  double alpha = 1;
  DType offsets = DType::f32;
};

struct Network {
  GraphBuilder b;
  ValueId x = 0;

  explicit Network(const Shape& shape) { x = b.input(b.tensor(DType::f32, shape)); }

  Shape rows_and(std::initializer_list<std::int64_t> last) const {
    const Shape& shape = b.graph.tensor(x)->shape;
    Shape made;
    for (std::size_t i = 0; i + 1 < shape.rank(); ++i) made.push_back(shape[i]);
    for (const auto size : last) made.push_back(size);
    return made;
  }
  std::int64_t depth() const { return b.graph.tensor(x)->shape[b.graph.tensor(x)->shape.rank() - 1]; }
  std::int64_t rows() const { return b.graph.tensor(x)->shape.numel() / depth(); }

  ValueId sums(const Written& w = {}) {
    const auto groups = depth() / w.summed;
    const auto grouped = b.view(x, rows_and({groups, w.summed}));
    const auto out = b.tensor(DType::f32, w.keepdim ? rows_and({groups, 1}) : rows_and({groups}));
    b.op("aten.sum.dim_IntList", {grouped, b.ints({w.sum_dim}), b.boolean(w.keepdim), b.null(), out});
    return out;
  }
  ValueId offsets(std::int64_t columns, const Written& w = {}) {
    return b.constant(w.offsets, {depth() / w.summed, columns}, "offsets" + std::to_string(b.graph.values.size()));
  }
  /// sums * offsets, in the shape of a linear's output.
  ValueId product(ValueId of, ValueId with, std::int64_t columns, const Written& w = {}) {
    if (w.is_flat) of = b.view(of, {rows(), depth() / w.summed});
    const auto out = b.tensor(DType::f32, w.is_flat ? Shape{rows(), columns} : rows_and({columns}));
    b.op(w.is_flat ? "aten.mm.default" : "aten.bmm.default", {of, with, out});
    return w.is_flat ? b.view(out, rows_and({columns})) : out;
  }
  ValueId add(ValueId made, ValueId term, const Written& w = {}) {
    const auto out = b.tensor(DType::f32, b.graph.tensor(made)->shape);
    b.op("aten.add.Tensor", {w.is_turned ? term : made, w.is_turned ? made : term, b.number(w.alpha), out});
    return out;
  }
  ValueId offset_linear(ValueId of, std::int64_t columns, const Written& w = {}) {
    const auto made = linear(b, x, depth(), columns, w.group);
    return add(made, product(of, offsets(columns, w), columns, w), w);
  }
};

std::int64_t fused_in(const Graph& graph) { return std::ranges::count(names_of(graph), kWithOffsets); }

TEST(OffsetLinears, are_put_into_their_linear) {
  for (const Shape& shape : {Shape{5, 128}, Shape{1, 5, 128}, Shape{2, 3, 128}, Shape{128}}) {
    for (const bool keepdim : {false, true}) {
      for (const bool is_turned : {false, true}) {
        Network m(shape);
        m.b.graph.tensor(m.x)->fixed = true;
        const auto out = m.offset_linear(m.sums({.keepdim = keepdim}), 20, {.is_turned = is_turned});
        m.b.output(out);
        ASSERT_TRUE(run_all(m.b.graph));
        ASSERT_EQ(names_of(m.b.graph), (Names{std::string(kWithOffsets)})) << shape.rank() << " dimensions";
        const Node& node = m.b.graph.nodes[0];
        EXPECT_EQ(node.name(), "et_vk.linear_q4gsw.default") << "as the program has it";
        EXPECT_EQ(node["self"], m.x);
        EXPECT_EQ(node.out(), out);
        const auto& scales = *m.b.graph.tensor(node["weight_scales"]);
        EXPECT_EQ(scales.shape, (Shape{8, 20}));
        EXPECT_EQ(m.b.graph.constants[scales.constant].parts, (std::vector<std::uint32_t>{1, 2}));
      }
    }
  }
}

TEST(OffsetLinears, are_found_in_products_of_batches_and_in_sums_of_products) {
  Network batches({1, 5, 128});
  const auto constant = batches.b.constant(DType::f32, {1, 4, 20}, "offsets");
  const auto made = linear(batches.b, batches.x, 128, 20);
  batches.b.output(batches.add(made, batches.product(batches.sums(), constant, 20, {.is_flat = false})));
  ASSERT_TRUE(run_all(batches.b.graph));
  EXPECT_EQ(names_of(batches.b.graph), (Names{std::string(kWithOffsets)}));

  Network sum({1, 5, 128});
  const auto flat = sum.b.view(linear(sum.b, sum.x, 128, 20), {5, 20});
  const auto sums = sum.b.view(sum.sums(), {5, 4});
  const auto out = sum.b.tensor(DType::f32, {5, 20});
  sum.b.op("aten.addmm.default", {flat, sums, sum.offsets(20), sum.b.integer(1), sum.b.integer(1), out});
  sum.b.output(sum.b.view(out, {1, 5, 20}));
  ASSERT_TRUE(run_all(sum.b.graph));
  EXPECT_EQ(names_of(sum.b.graph),
            (Names{std::string(kWithOffsets), "aten.view_copy.default", "aten.view_copy.default"}));
}

TEST(OffsetLinears, of_a_group_as_long_as_the_depth_need_no_view) {
  Network m({5, 32});
  const auto sums = m.b.tensor(DType::f32, {5, 1});
  m.b.op("aten.sum.dim_IntList", {m.x, m.b.ints({1}), m.b.boolean(true), m.b.null(), sums});
  m.b.output(m.add(linear(m.b, m.x, 32, 20), m.product(sums, m.offsets(20), 20)));
  ASSERT_TRUE(run_all(m.b.graph));
  EXPECT_EQ(names_of(m.b.graph), (Names{std::string(kWithOffsets)}));
}

TEST(OffsetLinears, of_q_k_and_v_share_their_sums_and_become_one_linear) {
  Network m({1, 5, 128});
  const auto sums = m.sums();
  for (const std::int64_t columns : {64, 32, 32}) m.b.output(m.offset_linear(sums, columns));
  ASSERT_TRUE(run_all(m.b.graph));
  ASSERT_EQ(names_of(m.b.graph), (Names{"nibble.linear_q4gsw_parts"}));
  const Node& node = m.b.graph.nodes[0];
  EXPECT_TRUE(std::get<bool>(m.b.graph.values[node["has_offsets"]]));
  EXPECT_EQ(std::get<IntList>(m.b.graph.values[node["pitches"]]), (IntList{64, 32, 32}));
  const auto& scales = *m.b.graph.tensor(node["weight_scales"]);
  EXPECT_EQ(scales.shape, (Shape{2 * 4 * 128}));
  EXPECT_EQ(m.b.graph.constants[scales.constant].parts, (std::vector<std::uint32_t>{1, 2, 4, 5, 7, 8}));
  EXPECT_EQ(m.b.graph.constants[scales.constant].length, 4U * 2 * 4 * 128);
}

TEST(OffsetLinears, of_gate_and_up_become_one_gated_linear) {
  Network m({1, 5, 128});
  const auto sums = m.sums();
  const auto gate = m.offset_linear(sums, 64);
  const auto up = m.offset_linear(sums, 64);
  m.b.output(mul(m.b, mul(m.b, gate, unary(m.b, "aten.sigmoid.default", gate)), up));
  ASSERT_TRUE(run_all(m.b.graph));
  ASSERT_EQ(names_of(m.b.graph), (Names{"nibble.linear_q4gsw_gated"}));
  EXPECT_TRUE(std::get<bool>(m.b.graph.values[m.b.graph.nodes[0]["has_offsets"]]));
}

TEST(OffsetLinears, linears_with_and_without_are_joined_among_themselves) {
  Network m({1, 5, 128});
  const auto sums = m.sums();
  for (int i = 0; i < 2; ++i) {
    m.b.output(m.offset_linear(sums, 32));
    m.b.output(linear(m.b, m.x, 128, 32));
  }
  ASSERT_TRUE(run_all(m.b.graph));
  ASSERT_EQ(names_of(m.b.graph), (Names{"nibble.linear_q4gsw_parts", "nibble.linear_q4gsw_parts"}));
  std::vector<bool> found;
  for (const auto& node : m.b.graph.nodes) found.push_back(std::get<bool>(m.b.graph.values[node["has_offsets"]]));
  EXPECT_EQ(found, (std::vector{true, false}));
}

TEST(OffsetLinears, a_linear_with_a_bias_keeps_it) {
  Network m({5, 128});
  const auto sums = m.sums();
  m.b.output(m.offset_linear(sums, 20));
  const auto bias = m.b.constant(DType::f32, {20});
  for (auto& node : m.b.graph.nodes) {
    if (node.op == "et_vk.linear_q4gsw.default") node.args[4] = bias;
  }
  ASSERT_TRUE(run_all(m.b.graph));
  ASSERT_EQ(names_of(m.b.graph), (Names{std::string(kWithOffsets)}));
  EXPECT_EQ(m.b.graph.nodes[0]["bias"], bias);
}

TEST(OffsetLinears, of_a_dynamic_number_of_rows_are_found_and_of_two_are_not) {
  for (const bool two : {false, true}) {
    Network m({two ? 2 : 1, 5, 128});
    const auto made = linear(m.b, m.x, 128, 20);
    const auto flat = m.b.tensor(DType::f32, {m.rows(), 20});
    m.b.op("aten.mm.default", {m.b.view(m.sums(), {m.rows(), 4}), m.offsets(20), flat});
    const auto shaped = m.b.tensor(DType::f32, m.rows_and({20}));
    const auto batch = two ? m.b.symint() : m.b.integer(1);
    m.b.op("aten.view_copy.default", {flat, m.b.list({batch, m.b.symint(), m.b.integer(20)}), shaped});
    m.b.output(m.add(made, shaped));
    run(offset_linears, m.b.graph);
    EXPECT_EQ(fused_in(m.b.graph), two ? 0 : 1);
  }
}

TEST(OffsetLinears, of_other_sums_are_left_alone) {
  for (const Written& w :
       {Written{.group = 64}, {.summed = 64}, {.sum_dim = 1}, {.alpha = 2}, {.offsets = DType::f16}}) {
    Network m({4, 128});
    m.b.output(m.offset_linear(m.sums(w), 20, w));
    run(offset_linears, m.b.graph);
    EXPECT_EQ(fused_in(m.b.graph), 0) << w.group << w.summed << w.sum_dim << w.alpha;
  }
}

TEST(OffsetLinears, of_what_the_linear_does_not_read_are_left_alone) {
  Network m({4, 128});
  const auto other = m.b.input(m.b.tensor(DType::f32, {4, 128}));
  const auto x = std::exchange(m.x, other);
  const auto sums = m.sums();
  m.x = x;
  m.b.output(m.offset_linear(sums, 20));
  run(offset_linears, m.b.graph);
  EXPECT_EQ(fused_in(m.b.graph), 0);
}

TEST(OffsetLinears, of_an_input_that_is_written_in_between_are_left_alone) {
  Network m({4, 128});
  const auto sums = m.sums();
  m.b.op("test.write", {m.x, m.b.tensor(DType::f32, {1})});
  m.b.output(m.offset_linear(sums, 20));
  run(offset_linears, m.b.graph);
  EXPECT_EQ(fused_in(m.b.graph), 0);
}

TEST(OffsetLinears, that_are_no_constants_of_their_own_are_left_alone) {
  enum class Kind { input, read_twice, same_bytes, too_large };
  for (const auto kind : {Kind::input, Kind::read_twice, Kind::same_bytes, Kind::too_large}) {
    Network m({4, 128});
    const auto sums = m.sums();
    const auto offsets = kind == Kind::input ? m.b.input(m.b.tensor(DType::f32, {4, 20})) : m.offsets(20);
    m.b.output(m.add(linear(m.b, m.x, 128, 20), m.product(sums, offsets, 20)));
    if (kind == Kind::read_twice) m.b.output(unary(m.b, "aten.exp.default", offsets));
    if (kind == Kind::same_bytes) {
      for (auto& constant : m.b.graph.constants) constant.key = "same";
    }
    run(offset_linears, m.b.graph, 2 * 4 * 4 * 20 - (kind == Kind::too_large ? 1 : 0));
    EXPECT_EQ(fused_in(m.b.graph), 0) << static_cast<int>(kind);
  }
}

TEST(OffsetLinears, whose_linear_or_product_others_read_are_left_alone) {
  for (const bool is_linear : {false, true}) {
    Network m({1, 4, 128});
    const auto made = linear(m.b, m.x, 128, 20);
    const auto term = m.product(m.sums(), m.offsets(20), 20);
    m.b.output(m.add(made, term));
    m.b.output(is_linear ? made : term);
    run(offset_linears, m.b.graph);
    EXPECT_EQ(fused_in(m.b.graph), 0);
  }
}

TEST(OffsetLinears, repeated_for_each_row_are_left_alone) {
  // [4, 20] + [4, 1, 20] is [4, 4, 20].
  Network m({4, 128});
  const auto made = linear(m.b, m.x, 128, 20);
  const auto term = m.b.view(m.product(m.sums(), m.offsets(20), 20), {4, 1, 20});
  m.b.output(m.b.add(made, term, {4, 4, 20}));
  run(offset_linears, m.b.graph);
  EXPECT_EQ(fused_in(m.b.graph), 0);
}

TEST(OffsetLinears, very_many_of_one_chain_of_views_are_no_trouble) {
  Network m({4, 128});
  auto view = m.sums();
  for (std::size_t i = 0; i < kVeryManyNodes / 4; ++i) view = m.b.view(view, {4, 4});
  const auto offsets = m.offsets(4);
  for (std::size_t i = 0; i < kVeryManyNodes / 8; ++i) m.b.output(m.add(view, m.product(view, offsets, 4)));
  run(offset_linears, m.b.graph);
  EXPECT_EQ(fused_in(m.b.graph), 0);
}

}  // namespace
}  // namespace nibble
