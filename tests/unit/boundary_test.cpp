// What a caller may pass, and every sentence in which it is refused, with no GPU.
#include <gtest/gtest.h>

#include "boundary/boundary.hpp"
#include "ops/registry.hpp"
#include "support/expect.hpp"
#include "support/graph_builder.hpp"

namespace nibble {
namespace {

using test::fails_with;
using test::succeeds;
using Kind = GivenInput::Kind;

/// A method with inputs of every kind:
///   0 ids     int64 [2, 100] or smaller, looked up in a table of 50 rows
///   1 n       an integer
///   2 x       float32 [3, 4]
///   3 unused  int64 [1, 8] or smaller
///   4 scalar  int64 []
///   5 small   uint8 [4]
///   6 one     int64 [1], which the graph takes as an integer
/// Its outputs: rows, n / 2, x as it came, the integer 7, rows once more.
class BoundaryTest : public testing::Test {
 protected:
  void SetUp() override {
    test::GraphBuilder b;
    const auto table = b.constant(DType::u8, {50, 16});
    const auto scales = b.constant(DType::f32, {50, 1});
    const auto ids = b.input(b.tensor(DType::i32, {2, 100}));
    const auto n = b.input(b.symint());
    const auto x = b.input(b.tensor(DType::f32, {3, 4}));
    const auto scalar = b.input(b.tensor(DType::i32, {}));
    const auto small = b.input(b.tensor(DType::u8, {4}));
    const auto one = b.input(b.symint());
    b.output(b.embedding_q4(table, scales, 32, ids));
    const auto half = b.symint();
    b.op("floordiv", {n, b.integer(2), half});
    b.output(half);
    const auto sum = b.symint();
    b.op("add", {half, one, sum});
    b.output(sum);
    b.output(b.add(x, x, {3, 4}));
    b.output(b.add(scalar, scalar, {}, DType::i32));
    b.output(b.view(small, {2, 2}));
    auto plan = Plan::make(b.graph, {}, {}, ops::registry());
    ASSERT_TRUE(succeeds(plan));
    MethodSignature signature;
    signature.inputs = {{DType::i64, {2, 100}, true, false}, {DType::i64, {}, false, true},
                        {DType::f32, {3, 4}, false, false},  {DType::i64, {1, 8}, true, false},
                        {DType::i64, {}, false, false},      {DType::u8, {4}, false, false},
                        {DType::i64, {1}, false, false}};
    signature.graph_inputs = {0, 1, 2, -1, 3, 4, 5};
    signature.outputs = {{DType::f32, {2, 100, 32}, true, false},
                         {DType::i64, {}, false, true},
                         {DType::f32, {3, 4}, false, false},
                         {DType::i64, {}, false, true},
                         {DType::f32, {2, 100, 32}, true, false}};
    signature.output_sources = {{OutputSource::Kind::graph, 0, 0},
                                {OutputSource::Kind::graph, 1, 0},
                                {OutputSource::Kind::input, 2, 0},
                                {OutputSource::Kind::constant, 0, 7},
                                {OutputSource::Kind::graph, 0, 0}};
    boundary = std::make_unique<Boundary>(std::move(signature), *plan);
    given = {{.dtype = DType::i64, .shape = Shape{1, 5}},
             {.kind = Kind::number, .integer = 9},
             {.dtype = DType::f64, .shape = Shape{3, 4}},
             {.dtype = DType::i32, .shape = Shape{1, 2}},
             {.dtype = DType::i64, .shape = Shape{}},
             {.dtype = DType::u8, .shape = Shape{4}},
             {.dtype = DType::i64, .shape = Shape{1}, .integer = 3}};
    taken.resize(given.size());
  }

  Status take() { return boundary->take(given, taken); }
  /// The sentence for one wrong input among good ones.
  std::string with(std::size_t input, GivenInput wrong) {
    std::swap(given[input], wrong);
    const auto status = take();
    std::swap(given[input], wrong);
    return status ? "" : status.error().message;
  }
  Error bad(std::size_t graph_input, const BadElement& element) {
    EXPECT_TRUE(succeeds(take()));
    Stepper stepper(boundary->plan());
    EXPECT_TRUE(succeeds(boundary->set(stepper, taken)));
    return boundary->bad_element(stepper, graph_input, element);
  }

  std::unique_ptr<Boundary> boundary;
  std::vector<GivenInput> given;
  std::vector<TakenInput> taken;
};

TEST_F(BoundaryTest, good_call_sets_shapes_and_integers) {
  ASSERT_TRUE(succeeds(take()));
  EXPECT_EQ(taken[0].shape, (Shape{1, 5}));
  EXPECT_EQ(taken[1].integer, 9);
  Stepper stepper(boundary->plan());
  ASSERT_TRUE(succeeds(boundary->set(stepper, taken)));
  ASSERT_TRUE(succeeds(stepper.update()));
  EXPECT_EQ(stepper.output_shape(0), (Shape{1, 5, 32}));
  EXPECT_EQ(stepper.output_int(2), 9 / 2 + 3);
}

TEST_F(BoundaryTest, number_of_inputs_is_told) {
  given.pop_back();
  EXPECT_TRUE(fails_with(take(), "6 inputs are given, but the program takes 7"));
  EXPECT_EQ(wrong_input_count(1, 0).message, "1 input is given, but the program takes 0");
  EXPECT_EQ(wrong_output_count(1, 2).message, "1 output is given, but the program has 2");
  EXPECT_EQ(wrong_output_count(0, 2).message, "0 outputs are given, but the program has 2");
}

TEST_F(BoundaryTest, wrong_type_is_told_with_those_that_will_do) {
  EXPECT_EQ(with(0, {.dtype = DType::f32, .shape = Shape{1, 5}}),
            "input 0 is float32, but the program takes int32 or int64");
  EXPECT_EQ(with(2, {.dtype = DType::i64, .shape = Shape{3, 4}}),
            "input 2 is int64, but the program takes float32, float64 or float16");
  EXPECT_EQ(with(5, {.dtype = DType::boolean, .shape = Shape{4}}), "input 5 is bool, but the program takes uint8");
  EXPECT_EQ(with(2, {.word = "complex128", .shape = Shape{3, 4}}),
            "input 2 is complex128, but the program takes float32, float64 or float16");
  EXPECT_EQ(with(3, {.dtype = DType::f32, .shape = Shape{1, 2}}),
            "input 3 is float32, but the program takes int32 or int64")
      << "also where no kernel reads it";
  EXPECT_EQ(wanted_dtypes(DType::boolean), "bool or uint8");
}

TEST_F(BoundaryTest, wrong_shape_is_told_with_the_largest_one) {
  const auto ids = [&](Shape shape) { return with(0, {.dtype = DType::i64, .shape = shape}); };
  EXPECT_EQ(ids({5}), "input 0 has shape [5], but the program takes [2, 100]");
  EXPECT_EQ(ids({2, 101}), "input 0 has shape [2, 101], but the program takes at most [2, 100]");
  EXPECT_EQ(ids({-1, 4}), "input 0 has shape [-1, 4], but the program takes at most [2, 100]");
  EXPECT_EQ(ids({2, std::numeric_limits<std::int64_t>::max()}),
            "input 0 has shape [2, 9223372036854775807], but the program takes at most [2, 100]");
  EXPECT_EQ(with(2, {.shape = Shape{2, 4}}), "input 2 has shape [2, 4], but the program takes [3, 4]");
  EXPECT_EQ(with(3, {.dtype = DType::i64, .shape = Shape{1, 9}}),
            "input 3 has shape [1, 9], but the program takes at most [1, 8]");
  EXPECT_EQ(ids({2, 0}), "") << "an empty one will do";
  EXPECT_EQ(too_many_dimensions("input 3", 9).message, "input 3 has 9 dimensions, but the most is 8");
}

TEST_F(BoundaryTest, missing_elements_are_told) {
  EXPECT_EQ(with(0, {.dtype = DType::i64, .shape = Shape{1, 5}, .count = 0}), "input 0 has shape [1, 5], but no data");
  EXPECT_EQ(with(0, {.dtype = DType::i64, .shape = Shape{1, 5}, .count = 4}),
            "input 0 has shape [1, 5] and takes 5 elements, but 4 are given");
  EXPECT_EQ(with(0, {.dtype = DType::i64, .shape = Shape{1, 5}, .count = 1}),
            "input 0 has shape [1, 5] and takes 5 elements, but 1 is given");
  EXPECT_EQ(with(0, {.dtype = DType::i64, .shape = Shape{0, 5}, .count = 0}), "") << "none are missing";
}

TEST_F(BoundaryTest, elements_alone_tell_a_shape_with_one_free_dimension) {
  given[2] = {.kind = Kind::numbers, .count = 12};
  given[3] = {.kind = Kind::numbers, .count = 5};
  ASSERT_TRUE(succeeds(take()));
  EXPECT_EQ(taken[2].shape, (Shape{3, 4}));
  EXPECT_EQ(taken[3].shape, (Shape{1, 5}));
  EXPECT_EQ(with(3, {.kind = Kind::numbers, .count = 9}),
            "input 3 has shape [1, 9], but the program takes at most [1, 8]");
  EXPECT_EQ(with(2, {.kind = Kind::numbers, .count = 11}),
            "input 2 has 11 elements, but the program takes the shape [3, 4]");
  EXPECT_EQ(with(0, {.dtype = DType::i64, .count = 1}),
            "input 0 has 1 element, but no shape: pass one of at most [2, 100]");
}

TEST_F(BoundaryTest, number_is_no_tensor_unless_that_has_no_dimensions) {
  EXPECT_EQ(with(0, {.kind = Kind::number, .integer = 3}),
            "input 0 is an integer, but the program takes a tensor of shape [2, 100]");
  EXPECT_EQ(with(0, {.kind = Kind::number, .word = "1.5", .count = 1}),
            "input 0 is a number, but the program takes a tensor of shape [2, 100]");
  EXPECT_EQ(with(4, {.kind = Kind::number, .integer = 3}),
            "input 4 is an integer, but the program takes a tensor of shape []");
  EXPECT_EQ(with(4, {.kind = Kind::number, .count = 1, .integer = 3}), "") << "where the number is an element, too";
}

TEST_F(BoundaryTest, integer_comes_as_a_number_or_as_the_only_element) {
  for (const auto& good : {GivenInput{.kind = Kind::number, .integer = -4},
                           GivenInput{.dtype = DType::i32, .shape = Shape{1, 1}, .integer = -4},
                           GivenInput{.kind = Kind::numbers, .count = 1, .integer = -4}}) {
    given[1] = given[6] = good;
    ASSERT_TRUE(succeeds(take()));
    EXPECT_TRUE(taken[1].is_int && taken[6].is_int);
    EXPECT_EQ(taken[1].integer, -4);
    EXPECT_EQ(taken[6].integer, -4);
  }
  EXPECT_EQ(with(1, {.dtype = DType::i64, .shape = Shape{2}}),
            "input 1 is int64 of shape [2], but the program takes an integer");
  EXPECT_EQ(with(6, {.dtype = DType::f32, .shape = Shape{1}}),
            "input 6 is float32 of shape [1], but the program takes an integer");
  EXPECT_EQ(with(1, {.kind = Kind::numbers, .count = 3}),
            "input 1 is a list of shape [3], but the program takes an integer");
  EXPECT_EQ(with(1, {.kind = Kind::number, .word = "1.5"}), "input 1 is 1.5, but the program takes an integer");
  EXPECT_EQ(with(1, {.kind = Kind::number, .word = "-9223372036854775809"}),
            "input 1 is -9223372036854775809, which does not fit 64 bits");
}

TEST_F(BoundaryTest, bad_element_is_told_with_its_place) {
  auto error = bad(0, {.position = 3, .value = 50});
  EXPECT_EQ(error.message, "et_vk.embedding_q4gsw.default: indices[0, 3] is 50, but the table has 50 rows");
  EXPECT_EQ(error.code, ErrorCode::out_of_range);
  error = bad(0, {.position = 4, .word = "18446744073709551616"});
  EXPECT_EQ(error.message, "input 0[0, 4] is 18446744073709551616, which does not fit the 32 bits that the GPU has");
  EXPECT_EQ(error.code, ErrorCode::out_of_range);
  EXPECT_EQ(bad(3, {.value = 1LL << 40}).message,
            "input 4 is 1099511627776, which does not fit the 32 bits that the GPU has");
  EXPECT_EQ(bad(4, {.position = 2, .value = 256}).message, "input 5[2] is 256, which does not fit uint8");
  error = bad(0, {.kind = BadElement::Kind::fraction, .position = 1, .word = "2.5"});
  EXPECT_EQ(error.message, "input 0[0, 1] is 2.5, but the program takes integers");
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_EQ(bad(0, {.kind = BadElement::Kind::no_number, .position = 0, .word = "abc"}).message,
            "input 0[0, 0] is abc, but the program takes numbers");
}

TEST_F(BoundaryTest, ids_are_checked_against_the_table_and_others_against_32_bits) {
  EXPECT_EQ(boundary->range(0).lowest, 0);
  EXPECT_EQ(boundary->range(0).highest, 49);
  EXPECT_EQ(boundary->range(3).lowest, -(1LL << 31));
  EXPECT_EQ(boundary->range(3).highest, (1LL << 31) - 1);
  EXPECT_TRUE(boundary->wants_elements(0));
  EXPECT_FALSE(boundary->wants_elements(1)) << "an integer has none";
  EXPECT_EQ(boundary->method_input(3), 4U);
}

TEST_F(BoundaryTest, inputs_are_told_by_their_names) {
  boundary->name_input(0, "ids");
  EXPECT_EQ(with(0, {.dtype = DType::f32, .shape = Shape{1, 5}}),
            "input ids is float32, but the program takes int32 or int64");
  EXPECT_EQ(with(2, {.shape = Shape{2, 4}}), "input 2 has shape [2, 4], but the program takes [3, 4]");
}

TEST_F(BoundaryTest, outputs_are_checked_for_type_and_size) {
  const auto check = [&](std::size_t output, DType dtype, std::size_t bytes, Shape shape,
                         std::optional<DType> only = {}) {
    const auto status = boundary->check_output(output, {.dtype = dtype, .data = nullptr, .bytes = bytes}, shape, only);
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(check(0, DType::f64, 256, {1, 1, 32}), "");
  EXPECT_EQ(check(0, DType::i32, 256, {1, 2, 32}),
            "output 0 is asked for as int32, but the program gives float32, float64 or float16");
  EXPECT_EQ(check(0, DType::f32, 255, {1, 2, 32}),
            "output 0 has shape [1, 2, 32] and takes 256 bytes as float32, but 255 are given");
  EXPECT_EQ(check(1, DType::i32, 8, {}), "output 1 is asked for as int32, but the program gives int64");
  EXPECT_EQ(check(3, DType::i64, 4, {}), "output 3 has shape [] and takes 8 bytes as int64, but 4 are given");
  EXPECT_EQ(check(2, DType::f32, 96, {3, 4}, DType::f64),
            "output 2 is asked for as float32, but the program gives float64")
      << "an input that is handed through keeps its type";
}

}  // namespace
}  // namespace nibble
