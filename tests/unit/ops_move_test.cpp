// Ops that move elements, with no GPU: shapes, dispatches, errors.
#include <gtest/gtest.h>

#include <limits>

#include "support/planning.hpp"

namespace nibble {
namespace {

using test::GraphBuilder;

/// One op on one f32 input. `arguments` are those between self and out.
struct Move {
  GraphBuilder b;
  std::string name;

  Move(std::string op, Shape shape) : name(std::move(op)) { b.input(b.tensor(DType::f32, shape)); }

  Move& on(std::vector<ValueId> arguments, Shape out, DType dtype = DType::f32) {
    arguments.insert(arguments.begin(), b.graph.inputs.front());
    arguments.push_back(b.tensor(dtype, out));
    b.output(arguments.back());
    b.op(name, std::move(arguments));
    return *this;
  }
  std::string error() const {
    auto plan = make(b);
    return plan ? "" : plan.error().message;
  }
};

struct Called {
  Shape shape;
  std::size_t dispatches = 0;
};

Called call(const GraphBuilder& b, Shape live) {
  const auto plan = make(b);
  EXPECT_TRUE(plan) << plan.error().message;
  if (!plan) return {};
  Stepper stepper(*plan);
  EXPECT_TRUE(stepper.set_shape(0, live));
  const auto status = stepper.update();
  EXPECT_TRUE(status) << status.error().message;
  return {stepper.output_shape(0), stepper.dispatches().size()};
}

Called slice(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t live) {
  Move op("aten.slice_copy.Tensor", {9, 3});
  auto& b = op.b;
  op.on({b.integer(0), b.integer(start), b.integer(end), b.integer(step)}, {9, 3});
  return call(b, {live, 3});
}

TEST(Move, slices_wrap_and_clamp_at_the_live_size) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(slice(0, kMax, 1, 9).shape, (Shape{9, 3}));
  EXPECT_EQ(slice(0, kMax, 1, 5).shape, (Shape{5, 3}));
  EXPECT_EQ(slice(2, -1, 1, 5).shape, (Shape{2, 3}));
  EXPECT_EQ(slice(-2, kMax, 1, 5).shape, (Shape{2, 3}));
  EXPECT_EQ(slice(-8, 3, 1, 5).shape, (Shape{3, 3}));
  EXPECT_EQ(slice(7, kMax, 1, 5).shape, (Shape{0, 3}));
  EXPECT_EQ(slice(7, kMax, 1, 5).dispatches, 0U);
  EXPECT_EQ(slice(1, kMax, 3, 9).shape, (Shape{3, 3}));
  EXPECT_EQ(slice(1, kMax, kMax, 9).shape, (Shape{1, 3}));
  EXPECT_EQ(slice(1, kMax, 3, 9).dispatches, 1U);
}

TEST(Move, bad_slices_are_named) {
  Move op("aten.slice_copy.Tensor", {9});
  auto& b = op.b;
  op.on({b.integer(0), b.null(), b.null(), b.integer(0)}, {9});
  EXPECT_EQ(op.error(), "aten.slice_copy.Tensor: step is 0, but it must be at least 1");
  Move scalar("aten.slice_copy.Tensor", {});
  scalar.on({scalar.b.integer(0), scalar.b.null(), scalar.b.null(), scalar.b.integer(1)}, {});
  EXPECT_EQ(scalar.error(), "aten.slice_copy.Tensor: self must have a dimension to slice, but it is a scalar");
  Move other("aten.slice_copy.Tensor", {9});
  other.on({other.b.integer(0), other.b.null(), other.b.null(), other.b.integer(1)}, {9}, DType::i32);
  EXPECT_EQ(other.error(), "aten.slice_copy.Tensor: self is float32, but the output is int32");
}

TEST(Move, select_names_an_index_past_the_live_end) {
  Move op("aten.select_copy.int", {4, 6});
  op.on({op.b.integer(-1), op.b.integer(-5)}, {4});
  EXPECT_EQ(call(op.b, {4, 5}).shape, (Shape{4}));
  const auto plan = make(op.b);
  ASSERT_TRUE(plan);
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.set_shape(0, {4, 4}));
  const auto status = stepper.update();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "aten.select_copy.int: index is -5, but dimension 1 has 4 entries");
  EXPECT_EQ(status.error().code, ErrorCode::out_of_range);
}

TEST(Move, bad_permutations_are_named) {
  Move op("aten.permute_copy.default", {2, 3, 4});
  op.on({op.b.ints({0, 2, -1})}, {2, 4, 3});
  EXPECT_EQ(op.error(), "aten.permute_copy.default: dims names dimension 2 twice");
  Move few("aten.permute_copy.default", {2, 3, 4});
  few.on({few.b.ints({0, 2})}, {2, 4, 3});
  EXPECT_EQ(few.error(), "aten.permute_copy.default: dims has 2 entries, but self has 3 dimensions");
  Move far("aten.transpose_copy.int", {2, 3});
  far.on({far.b.integer(0), far.b.integer(2)}, {3, 2});
  EXPECT_EQ(far.error(), "aten.transpose_copy.int: dim1 is 2, but the tensor has 2 dimensions");
  Move deep("aten.t_copy.default", {2, 3, 4});
  deep.on({}, {2, 3, 4});
  EXPECT_EQ(deep.error(), "aten.t_copy.default: self must have at most 2 dimensions, but its shape is [2, 3, 4]");
}

TEST(Move, shapes_that_cannot_be_expanded_are_named) {
  Move op("aten.expand_copy.default", {3, 2});
  op.on({op.b.ints({3, 4}), op.b.boolean(false)}, {3, 4});
  EXPECT_EQ(op.error(), "aten.expand_copy.default: size[1] is 4, but a self of shape [3, 2] cannot be expanded to it");
  Move few("aten.expand_copy.default", {3, 2});
  few.on({few.b.ints({3}), few.b.boolean(false)}, {3, 2});
  EXPECT_EQ(few.error(), "aten.expand_copy.default: size has 1 entries, but self has 2 dimensions");
  Move minus("aten.repeat.default", {3});
  minus.on({minus.b.ints({-1})}, {3});
  EXPECT_EQ(minus.error(), "aten.repeat.default: repeats[0] is -1, but it must be from 0 to 4294967295");
}

TEST(Move, tiling_every_dimension_of_the_highest_rank_is_one_dispatch) {
  Move op("aten.repeat.default", {2, 2, 2, 2, 2, 2, 2, 2});
  op.on({op.b.ints({2, 3, 2, 3, 2, 3, 2, 3})}, {4, 6, 4, 6, 4, 6, 4, 6});
  const auto called = call(op.b, {2, 2, 2, 2, 2, 2, 2, 2});
  EXPECT_EQ(called.shape, (Shape{4, 6, 4, 6, 4, 6, 4, 6}));
  EXPECT_EQ(called.dispatches, 1U);
}

TEST(Move, splits_write_each_part_that_is_read_once) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f16, {4, 7}));
  const auto parts = b.list({b.tensor(DType::f16, {4, 2}), b.null(), b.tensor(DType::f16, {4, 4})});
  b.op("aten.split_with_sizes_copy.default", {x, b.ints({2, 1, 4}), b.integer(1), parts});
  b.output(std::get<ValueList>(b.graph.values[parts]).items[2]);
  const auto called = call(b, {3, 7});
  EXPECT_EQ(called.shape, (Shape{3, 4}));
  EXPECT_EQ(called.dispatches, 1U);
}

TEST(Move, bad_splits_are_named) {
  const auto error = [](IntList sizes) {
    GraphBuilder b;
    const auto x = b.input(b.tensor(DType::f32, {7}));
    const auto parts = b.list({b.tensor(DType::f32, {7}), b.tensor(DType::f32, {7})});
    b.op("aten.split_with_sizes_copy.default", {x, b.ints(std::move(sizes)), b.integer(0), parts});
    b.output(std::get<ValueList>(b.graph.values[parts]).items[0]);
    return make(b).error().message;
  };
  EXPECT_EQ(error({3, 5}),
            "aten.split_with_sizes_copy.default: split_sizes[1] is 5, but 4 entries of dimension 0 are left");
  EXPECT_EQ(error({3, 3}),
            "aten.split_with_sizes_copy.default: split_sizes add up to 6, but dimension 0 has 7 entries");
  EXPECT_EQ(error({7}), "aten.split_with_sizes_copy.default: split_sizes has 1 entries, but there are 2 outputs");
}

TEST(Move, bad_borders_are_named) {
  const auto error = [](IntList pad, double value, DType dtype) {
    GraphBuilder b;
    const auto x = b.input(b.tensor(dtype, {3, 5}));
    const auto out = b.tensor(dtype, {9, 9});
    b.op("aten.constant_pad_nd.default", {x, b.ints(std::move(pad)), b.number(value), out});
    b.output(out);
    const auto plan = make(b);
    return plan ? "" : plan.error().message;
  };
  EXPECT_EQ(error({1, 1, 2, -2}, 0.5, DType::f32), "");
  EXPECT_EQ(
      error({1}, 0, DType::f32),
      "aten.constant_pad_nd.default: pad has 1 entries, but a self of shape [3, 5] takes two for each of its last "
      "dimensions");
  EXPECT_EQ(error({-3, -3}, 0, DType::f32),
            "aten.constant_pad_nd.default: pad for dimension 1 is -3 and -3, but it has 5 entries");
  EXPECT_EQ(error({1, 1}, 0.5, DType::i32),
            "aten.constant_pad_nd.default: value must be a 32-bit integer for int32, but it is 0.5");
}

struct Joined {
  GraphBuilder b;
  std::vector<ValueId> inputs;

  explicit Joined(std::vector<Shape> shapes) {
    for (const auto& shape : shapes) inputs.push_back(b.input(b.tensor(DType::f32, shape)));
  }
  Result<std::shared_ptr<const Plan>> along(std::int64_t dim, Shape out) {
    const auto result = b.tensor(DType::f32, out);
    b.op("aten.cat.default", {b.list(inputs), b.integer(dim), result});
    b.output(result);
    return make(b);
  }
};

TEST(Cat, binds_seven_inputs_at_once) {
  for (const auto& [count, dispatches] : {std::pair(1, 1), std::pair(7, 1), std::pair(8, 2), std::pair(15, 3)}) {
    Joined joined(std::vector<Shape>(count, Shape{2, 3}));
    const auto plan = joined.along(1, {2, 3 * count});
    ASSERT_TRUE(plan) << plan.error().message;
    Stepper stepper(*plan);
    ASSERT_TRUE(stepper.update());
    EXPECT_EQ(stepper.dispatches().size(), static_cast<std::size_t>(dispatches)) << count;
    for (const auto* d : stepper.dispatches()) EXPECT_LE(d->binding_count, kMaxBindings);
  }
}

TEST(Cat, passes_over_empty_vectors) {
  Joined joined({{0}, {2, 3}, {0}});
  const auto plan = joined.along(-1, {2, 3});
  EXPECT_TRUE(plan) << plan.error().message;
}

TEST(Cat, shapes_that_do_not_fit_are_named) {
  Joined joined({{2, 3}, {3, 3}});
  EXPECT_EQ(joined.along(1, {2, 6}).error().message,
            "aten.cat.default: tensors[1] has shape [3, 3], which does not go beside [2, 3] along dimension 1");
  Joined scalars({{}, {}});
  EXPECT_EQ(scalars.along(0, {2}).error().message,
            "aten.cat.default: tensors[0] is a scalar, which has no dimension to put others beside");
}

struct Indexed {
  GraphBuilder b;
  ValueId self;

  explicit Indexed(Shape shape) : self(b.input(b.tensor(DType::f32, shape))) {}
  ValueId ids(Shape shape, DType dtype = DType::i32) { return b.input(b.tensor(dtype, shape)); }
  Result<std::shared_ptr<const Plan>> at(std::vector<ValueId> indices, Shape out) {
    const auto result = b.tensor(DType::f32, out);
    b.op("aten.index.Tensor", {self, b.list(std::move(indices)), result});
    b.output(result);
    return make(b);
  }
};

Called call(const Result<std::shared_ptr<const Plan>>& plan) {
  EXPECT_TRUE(plan) << plan.error().message;
  if (!plan) return {};
  EXPECT_TRUE((*plan)->layout().can_fault);
  Stepper stepper(*plan);
  EXPECT_TRUE(stepper.update());
  return {stepper.output_shape(0), stepper.dispatches().size()};
}

TEST(Index, picked_dimensions_come_where_the_indices_are) {
  Indexed one({5, 6, 7});
  EXPECT_EQ(call(one.at({one.b.null(), one.ids({2, 3})}, {5, 2, 3, 7})).shape, (Shape{5, 2, 3, 7}));
  Indexed two({5, 6, 7});
  EXPECT_EQ(call(two.at({two.b.null(), two.ids({2, 1}), two.ids({3})}, {5, 2, 3})).shape, (Shape{5, 2, 3}));
  Indexed gap({5, 6, 7});
  EXPECT_EQ(call(gap.at({gap.ids({2, 1}), gap.b.null(), gap.ids({3})}, {2, 3, 6})).shape, (Shape{2, 3, 6}));
}

TEST(Index, one_tensor_is_one_dispatch) {
  Indexed one({5, 6});
  EXPECT_EQ(call(one.at({one.ids({3})}, {3, 6})).dispatches, 1U);
  Indexed two({5, 6});
  EXPECT_EQ(call(two.at({two.ids({3}), two.ids({3})}, {3})).dispatches, 3U);
}

TEST(Index, bad_indices_are_named) {
  Indexed mask({5, 6});
  EXPECT_EQ(mask.at({mask.ids({5}, DType::boolean)}, {5, 6}).error().message,
            "aten.index.Tensor: indices must be int32, but it is bool");
  Indexed many({5});
  EXPECT_EQ(many.at({many.ids({5}), many.ids({5})}, {5}).error().message,
            "aten.index.Tensor: indices has 2 entries, but self has 1 dimensions");
  Indexed none({5});
  EXPECT_EQ(none.at({none.b.null()}, {5}).error().message, "aten.index.Tensor: indices holds no tensor");
  Indexed apart({5, 6});
  EXPECT_EQ(apart.at({apart.ids({2}), apart.ids({3})}, {3}).error().message,
            "aten.index.Tensor: indices[1] has shape [3], which does not broadcast with [2]");
  Indexed deep({5, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_EQ(deep.at({deep.ids({2, 3})}, {2, 3, 1, 1, 1, 1, 1, 1}).error().message,
            "aten.index.Tensor: the output would have more than 8 dimensions");
}

TEST(Index, faults_name_the_tensor_of_indices) {
  Indexed two({5, 6});
  const auto plan = two.at({two.ids({4, 1}), two.ids({3})}, {4, 3});
  ASSERT_TRUE(plan) << plan.error().message;
  Stepper stepper(*plan);
  ASSERT_TRUE(stepper.update());
  EXPECT_EQ(stepper.describe_fault(std::array<std::uint32_t, kFaultWords>{1, 2, 7, 0}).message,
            "aten.index.Tensor: indices[2, 0] is 7, but the table has 5 rows");
  EXPECT_EQ(stepper.describe_fault(std::array<std::uint32_t, kFaultWords>{1, 2, 7, 1}).message,
            "aten.index.Tensor: indices[2] is 7, but the table has 6 rows");
  EXPECT_EQ(stepper.describe_fault(std::array<std::uint32_t, kFaultWords>{1, 2, 7, 2}).code, ErrorCode::internal);
}

TEST(Gather, an_index_larger_than_self_is_named) {
  GraphBuilder b;
  const auto x = b.input(b.tensor(DType::f32, {3, 4}));
  const auto ids = b.input(b.tensor(DType::i32, {4, 2}));
  const auto out = b.tensor(DType::f32, {4, 2});
  b.op("aten.gather.default", {x, b.integer(1), ids, b.boolean(false), out});
  b.output(out);
  EXPECT_EQ(
      make(b).error().message,
      "aten.gather.default: index has shape [4, 2], but a self of shape [3, 4] takes one as large at most, except "
      "in dimension 1");
}

}  // namespace
}  // namespace nibble
