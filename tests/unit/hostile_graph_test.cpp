// Graphs that no exporter makes, but that a file can hold: each is refused by a sentence, or computes what it says.
#include <gtest/gtest.h>

#include "program/program.hpp"
#include "support/expect.hpp"
#include "support/named_data.hpp"
#include "support/planning.hpp"
#include "support/pte_builder.hpp"
#include "support/small_programs.hpp"

namespace nibble {
namespace {

using namespace test;

Result<Graph> read_hostile(const BlobBuilder& b) { return read_blob(b.finish(), sizes_of(b)); }

TEST(HostileGraph, a_node_without_arguments_is_refused) {
  for (const auto& family : ops::registry()) {
    for (const auto& op : family.ops) {
      GraphBuilder b;
      const auto x = b.input(b.tensor(DType::f32, {64, 64}));
      const auto weight = b.constant(DType::f32, {64, 64});
      const auto out = b.tensor(DType::f32, {64, 64});
      b.op("aten.mm.default", {x, weight, out});
      b.op(std::string(op.name()), {});
      b.output(out);
      const Options options{.max_shard_bytes = 1024};
      EXPECT_TRUE(fails_with(Plan::make(b.graph, {}, options, ops::registry()), "has no arguments"));
      EXPECT_EQ(Plan::refusals(b.graph, {}, options, ops::registry()).all.size(), 1U) << op.name();
    }
  }
  BlobBuilder b;
  b.op("aten.add.Tensor", {});
  EXPECT_TRUE(fails_with(read_hostile(b), "operator 0 (aten.add.Tensor) of the delegate graph has no arguments"));
}

TEST(HostileGraph, a_value_is_an_input_once) {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {4});
  b.inputs({b.tensor(DType::f32, {2}), x, x});
  b.outputs({x});
  EXPECT_TRUE(fails_with(read_hostile(b), "input 2 of the delegate graph is value 0, which is its input 1 already"));

  GraphBuilder g;
  const auto y = g.input(g.tensor(DType::f32, {4}));
  g.input(y);
  g.output(y);
  EXPECT_MENTIONS(error_of(g), "input 1 of the graph is value 0, which is its input 0 already");
}

TEST(HostileGraph, a_constant_is_no_input) {
  GraphBuilder b;
  const auto x = b.input(b.constant(DType::f32, {4}));
  b.output(x);
  EXPECT_MENTIONS(error_of(b), "input 0 of the graph is value 0, which is constant 0");
}

TEST(HostileGraph, ids_past_the_end_are_refused_wherever_a_graph_comes_from) {
  const auto with = [](auto change) {
    GraphBuilder b;
    const auto x = b.input(b.tensor(DType::f32, {4}));
    b.output(b.add(x, b.constant(DType::f32, {4}), {4}));
    b.list({x});
    change(b.graph);
    return error_of(b);
  };
  EXPECT_EQ(with([](Graph&) {}), "");
  EXPECT_MENTIONS(with([](Graph& g) { g.nodes[0].args[1] = 99; }), "an argument of aten.add.Tensor is value 99");
  EXPECT_MENTIONS(with([](Graph& g) { g.inputs[0] = 99; }), "input 0 of the graph is value 99");
  EXPECT_MENTIONS(with([](Graph& g) { g.outputs[0] = 99; }), "output 0 of the graph is value 99");
  EXPECT_MENTIONS(with([](Graph& g) { std::get<ValueList>(g.values.back()).items[0] = 99; }), "holds value 99");
  EXPECT_MENTIONS(with([](Graph& g) { g.tensor(1)->constant = 7; }), "value 1 is constant 7, but the graph has 1");
  EXPECT_MENTIONS(with([](Graph& g) { g.constants[0].parts = {7}; }), "constant 0 has the part 7");
  EXPECT_MENTIONS(with([](Graph& g) { g.outputs[0] = g.nodes[0].args[2]; }),
                  "output 0 of the graph is value 3, which is of kind Int");
}

TEST(HostileGraph, a_method_names_an_input_once) {
  auto pte = describe(every_kind_blob());
  auto& method = pte.methods[0];
  method.inputs.push_back(method.inputs[0]);
  EXPECT_TRUE(fails_with(read_program(write_pte(pte)), "input 2 of method 'forward' is the same value as its input 0"));
}

/// The view reads what only a later node writes; a pass that drops the view must not hide it.
TEST(HostileGraph, a_view_of_what_is_written_later_is_refused) {
  for (const bool is_same_shape : {true, false}) {
    GraphBuilder b;
    const auto x = b.input(b.tensor(DType::f32, {2, 2}));
    const auto later = b.tensor(DType::f32, {2, 2});
    const auto view = b.view(later, is_same_shape ? Shape{2, 2} : Shape{4});
    b.op("aten.relu.default", {x, later});
    const auto out = b.tensor(DType::f32, is_same_shape ? Shape{2, 2} : Shape{4});
    b.op("aten.neg.default", {view, out});
    b.output(out);
    EXPECT_EQ(error_of(b), "aten.view_copy.default reads value 1 before anything wrote it");
  }
}

TEST(HostileGraph, a_ninth_dimension_is_refused) {
  for (const std::int64_t at : {0, 8}) {
    GraphBuilder b;
    const auto x = b.input(b.tensor(DType::f32, {2, 1, 1, 1, 1, 1, 1, 1}));
    const auto out = b.tensor(DType::f32, at == 0 ? Shape{1, 2, 1, 1, 1, 1, 1, 1} : Shape{2, 1, 1, 1, 1, 1, 1, 1});
    b.op("aten.unsqueeze_copy.default", {x, b.integer(at), out});
    b.output(out);
    EXPECT_EQ(error_of(b), "aten.unsqueeze_copy.default: out would have more than 8 dimensions");
  }
  Shape shape{1, 2, 3, 4, 5, 6, 7, 8};
  const Shape eight = shape;
  EXPECT_FALSE(shape.push_back(9));
  EXPECT_FALSE(shape == eight);
}

/// y = x, z = y; then y = w: readers of y before and after see two shapes, in every call.
TEST(HostileGraph, a_value_that_is_written_twice_has_the_shape_of_its_last_writer) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {8}));
  const auto w = b.input(b.tensor(DType::f32, {8}));
  const auto scale = b.input(b.tensor(DType::f32, {8}));
  const auto y = b.tensor(DType::f32, {8});
  const auto first = b.tensor(DType::f32, {8});
  const auto second = b.tensor(DType::f32, {8});
  b.op("aten.relu.default", {x, y});
  b.op("aten.mul.Tensor", {y, scale, first});
  b.op("aten.neg.default", {w, y});
  b.op("aten.mul.Tensor", {y, scale, second});
  b.output(first);
  b.output(second);
  const auto plan = make(b);
  ASSERT_TRUE(succeeds(plan));
  Stepper stepper(*plan);
  for (const auto& [size, other, last] :
       {std::array<std::int64_t, 3>{8, 5, 1}, {3, 5, 1}, {3, 7, 1}, {1, 5, 1}, {1, 5, 5}}) {
    ASSERT_TRUE(stepper.set_shape(0, {size}));
    ASSERT_TRUE(stepper.set_shape(1, {other}));
    ASSERT_TRUE(stepper.set_shape(2, {last}));
    ASSERT_TRUE(succeeds(stepper.update()));
    EXPECT_EQ(stepper.output_shape(0), Shape{std::max(size, last)}) << size << " " << other;
    EXPECT_EQ(stepper.output_shape(1), Shape{other}) << size << " " << other;
  }
}

}  // namespace
}  // namespace nibble
