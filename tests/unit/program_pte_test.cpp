#include <algorithm>

#include "program/program.hpp"
#include "support/expect.hpp"
#include "support/pte_builder.hpp"
#include "support/small_programs.hpp"

namespace nibble::test {
namespace {

/// (a, b) -> (a + b, a - b)
BlobBuilder two_by_two() {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {2});
  const int y = b.tensor(DType::f32, {2});
  const int sum = b.tensor(DType::f32, {2});
  const int difference = b.tensor(DType::f32, {2});
  const int one = b.integer(1);
  b.op("aten.add.Tensor", {x, y, one, sum});
  b.op("aten.sub.Tensor", {x, y, one, difference});
  b.inputs({x, y});
  b.outputs({sum, difference});
  return b;
}

TEST(PteFile, reads_a_file_and_locates_its_constants) {
  const auto file = make_pte(embedding_blob());
  const auto program = read_program(file);
  ASSERT_TRUE(succeeds(program));
  EXPECT_EQ(program->method, "forward");
  ASSERT_EQ(program->signature.inputs.size(), 1U);
  EXPECT_EQ(program->signature.inputs[0].dtype, DType::i64) << "the host holds int64 where the device holds int32";
  EXPECT_EQ(program->signature.inputs[0].shape, (Shape{2, 3}));
  EXPECT_FALSE(program->signature.inputs[0].dynamic);
  ASSERT_EQ(program->signature.outputs.size(), 1U);
  EXPECT_EQ(program->signature.outputs[0].dtype, DType::f32);
  EXPECT_EQ(program->signature.graph_inputs, std::vector<std::int32_t>{0});
  EXPECT_EQ(program->signature.output_sources[0].kind, OutputSource::Kind::graph);
  EXPECT_EQ(program->signature.output_sources[0].index, 0U);

  const std::vector<Bytes> wanted{Bytes(160, std::byte{0x5a}), bytes_of(std::vector<float>(20, 0.5F))};
  ASSERT_EQ(program->graph.constants.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& constant = program->graph.constants[i];
    ASSERT_TRUE(constant.located);
    ASSERT_LE(constant.offset + constant.length, file.size());
    EXPECT_TRUE(std::ranges::equal(wanted[i], std::span(file).subspan(constant.offset, constant.length)));
  }
}

TEST(PteFile, reads_in_stages_without_the_rest_of_the_file) {
  const auto file = make_pte(embedding_blob());
  const auto head = read_head(std::span(file).first(kHeadBytes), file.size());
  ASSERT_TRUE(succeeds(head));
  const Bytes start(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(head->program_size));
  const auto container = read_container(start, *head);
  ASSERT_TRUE(succeeds(container));
  const Bytes blob(file.begin() + static_cast<std::ptrdiff_t>(container->blob.offset),
                   file.begin() + static_cast<std::ptrdiff_t>(container->blob.offset + container->blob.size));
  auto graph = read_blob(blob, named_sizes(*container));
  ASSERT_TRUE(succeeds(graph));
  EXPECT_TRUE(succeeds(join(*container, *graph)));
}

TEST(PteFile, reads_integers_at_both_ends_and_dynamic_shapes) {
  const auto program = read_program(make_pte(every_kind_blob(), {.dynamic = true}));
  ASSERT_TRUE(succeeds(program));
  EXPECT_TRUE(program->signature.inputs[0].dynamic);
  EXPECT_TRUE(program->signature.inputs[1].is_int);
  EXPECT_FALSE(program->signature.outputs[0].is_int);
  EXPECT_TRUE(program->signature.outputs[1].is_int);
  EXPECT_EQ(program->signature.output_sources[2].index, 2U);
}

TEST(PteFile, an_integer_may_come_as_a_tensor_of_one_element) {
  auto pte = describe(every_kind_blob());
  pte.methods[0].values[1] = PteTensor{.scalar_type = 4, .sizes = {1}, .dim_order = {0}};
  EXPECT_TRUE(succeeds(read_program(write_pte(pte))));
  pte.methods[0].values[1] = PteTensor{.scalar_type = 6, .sizes = {1}, .dim_order = {0}};
  EXPECT_TRUE(fails_with(read_program(write_pte(pte)),
                         "input 1 of the delegate is an integer, but the method passes a float32"));
}

TEST(PteFile, the_delegate_may_lie_inside_the_program) {
  auto pte = describe(two_by_two());
  pte.inline_blobs.push_back(pte.segments[0].bytes);
  pte.segments.clear();
  pte.methods[0].delegates[0].location = 0;
  for (const bool extended : {true, false}) {
    pte.extended_header = extended;
    EXPECT_TRUE(succeeds(read_program(write_pte(pte)))) << extended;
  }
}

TEST(PteFile, follows_inputs_and_outputs_in_any_order) {
  // method (0, 1, 2) -> [difference, 1, sum, sum, 7]; the delegate takes 2 and 0.
  auto pte = describe(two_by_two());
  auto& method = pte.methods[0];
  const PteTensor tensor{.scalar_type = 6, .sizes = {2}, .dim_order = {0}};
  method.values = {tensor, tensor, tensor, tensor, tensor, std::int64_t{7}};
  method.inputs = {0, 1, 2};
  method.calls[0].args = {2, 0, 3, 4};
  method.outputs = {4, 1, 3, 3, 5};
  const auto program = read_program(write_pte(pte));
  ASSERT_TRUE(succeeds(program));
  EXPECT_EQ(program->signature.graph_inputs, (std::vector<std::int32_t>{1, -1, 0}));
  using Kind = OutputSource::Kind;
  const std::vector<std::pair<Kind, std::uint32_t>> wanted{
      {Kind::graph, 1}, {Kind::input, 1}, {Kind::graph, 0}, {Kind::graph, 0}, {Kind::constant, 0}};
  ASSERT_EQ(program->signature.output_sources.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(program->signature.output_sources[i].kind, wanted[i].first) << i;
    EXPECT_EQ(program->signature.output_sources[i].index, wanted[i].second) << i;
  }
  EXPECT_EQ(program->signature.output_sources[4].value, 7);
  EXPECT_TRUE(program->signature.outputs[4].is_int);
}

// Four bytes of the file for each: a caller's memory must not pay for all that they can say.
TEST(PteFile, outputs_that_repeat_others_have_a_limit) {
  auto pte = describe(two_by_two());
  auto& method = pte.methods[0];
  const PteTensor small{.scalar_type = 6, .sizes = {2}, .dim_order = {0}};
  const PteTensor large{.scalar_type = 6, .sizes = {16 << 20}, .dim_order = {0}};
  method.values = {small, large, small, small, small};
  method.inputs = {0, 1, 2};
  method.calls[0].args = {2, 0, 3, 4};
  method.outputs = {3, 1, 1, 1, 1, 1};  // 4 times 64 MiB again
  EXPECT_TRUE(succeeds(read_program(write_pte(pte))));
  method.outputs.push_back(1);
  EXPECT_TRUE(fails_with(read_program(write_pte(pte)), "the repeated ones take more than 268435456 bytes"));
}

TEST(PteFile, gives_constant_methods_as_json) {
  auto pte = describe(two_by_two());
  pte.methods.push_back(constant_method("get_vocab_size", {std::int64_t{32000}}));
  pte.methods.push_back(constant_method("use_kv_cache", {true}));
  pte.methods.push_back(constant_method("scale", {0.5, 2.0, 1e300}));
  pte.methods.push_back(constant_method("name", {std::string("a \"b\"\\\n\u00e9\xff")}));
  pte.methods.push_back(constant_method("lists", {std::vector<std::int64_t>{2, 2}, std::vector<double>{0.5},
                                                  std::int64_t{-3}, std::vector<bool>{true, false}, std::monostate{}}));
  pte.methods.push_back(constant_method("a_tensor_is_left_out", {PteTensor{}}));
  const auto program = read_program(write_pte(pte));
  ASSERT_TRUE(succeeds(program));
  const auto& methods = program->constant_methods;
  ASSERT_EQ(methods.size(), 5U);
  EXPECT_EQ(methods[0].name, "get_vocab_size");
  EXPECT_EQ(methods[0].values, std::vector<std::string>{"32000"});
  EXPECT_EQ(methods[1].values, std::vector<std::string>{"true"});
  EXPECT_EQ(methods[2].values, (std::vector<std::string>{"0.5", "2.0", "1e+300"}));
  EXPECT_EQ(methods[3].values, std::vector<std::string>{"\"a \\\"b\\\"\\\\\\u000a\u00e9\\ufffd\""});
  EXPECT_EQ(methods[4].values, (std::vector<std::string>{"[-3, -3]", "[0.5]", "-3", "[true, false]", "null"}));
}

TEST(PteFile, takes_forward_or_the_only_method_or_the_one_asked_for) {
  auto pte = describe(two_by_two());
  pte.methods[0].name = "encode";
  pte.methods.push_back(constant_method("size", {std::int64_t{1}}));
  auto program = read_program(write_pte(pte));
  ASSERT_TRUE(succeeds(program));
  EXPECT_EQ(program->method, "encode");

  pte.methods.push_back(pte.methods[0]);
  pte.methods[2].name = "decode";
  EXPECT_TRUE(fails_with(read_program(write_pte(pte)),
                         "no method 'forward'; the methods that compute are: 'encode', 'decode'"));
  program = read_program(write_pte(pte), "decode");
  ASSERT_TRUE(succeeds(program));
  EXPECT_EQ(program->method, "decode");
  EXPECT_TRUE(fails_with(read_program(write_pte(pte), "train"), "no method 'train'"));
}

TEST(PteFile, names_all_operators_outside_the_delegate) {
  auto pte = describe(two_by_two());
  auto& method = pte.methods[0];
  method.operators = {{"aten::mean", "out"}, {"aten::unused", "out"}, {"aten::argmax", ""}, {"aten::mean", "out"}};
  for (int op : {0, 2, 3}) method.calls.push_back({.is_delegate = false, .index = op, .args = {}});
  const auto program = read_program(write_pte(pte));
  EXPECT_TRUE(fails_with(program, "operators outside the delegate (aten::mean.out, aten::argmax)"));
  EXPECT_TRUE(fails_with(program, "run it through ExecuTorch with `import nibble`"));
  EXPECT_EQ(program.error().code, ErrorCode::unsupported);
}

TEST(PteFile, counts_the_delegate_calls) {
  auto pte = describe(two_by_two());
  pte.methods[0].calls.push_back(pte.methods[0].calls[0]);
  EXPECT_TRUE(fails_with(read_program(write_pte(pte)), "method 'forward' has 2 delegate calls"));
  pte.methods[0].calls.clear();
  EXPECT_TRUE(fails_with(read_program(write_pte(pte)), "method 'forward' has 0 delegate calls"));
}

TEST(PteFile, a_dimension_of_one_may_stand_anywhere_in_the_order) {
  auto pte = describe(every_kind_blob());
  std::get<PteTensor>(pte.methods[0].values[0]).dim_order = {1, 0};
  EXPECT_TRUE(succeeds(read_program(write_pte(pte))));
}

}  // namespace
}  // namespace nibble::test
