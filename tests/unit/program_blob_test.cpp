#include "program/blob.hpp"

#include <cstring>

#include "schema_generated.h"
#include "support/expect.hpp"
#include "support/named_data.hpp"
#include "support/small_programs.hpp"

namespace nibble::test {
namespace {

Result<Graph> read(const BlobBuilder& b) { return read_blob(b.finish(), sizes_of(b)); }

TEST(DelegateBlob, reads_an_embedding_graph) {
  const auto b = embedding_blob();
  const auto graph = read(b);
  ASSERT_TRUE(succeeds(graph));
  ASSERT_EQ(graph->values.size(), 6U);
  ASSERT_EQ(graph->nodes.size(), 1U);
  EXPECT_EQ(graph->nodes[0].op, "et_vk.embedding_q4gsw.default");
  EXPECT_EQ(graph->nodes[0].args, (std::vector<ValueId>{0, 1, 4, 2, 5, 3}));
  EXPECT_EQ(graph->inputs, std::vector<ValueId>{2});
  EXPECT_EQ(graph->outputs, std::vector<ValueId>{3});
  EXPECT_EQ(graph->tensor(3)->shape, (Shape{2, 3, 32}));
  EXPECT_EQ(graph->tensor(3)->dtype, DType::f32);
  EXPECT_EQ(std::get<std::int64_t>(graph->values[4]), 16);
  EXPECT_TRUE(std::get<bool>(graph->values[5]));
}

TEST(DelegateBlob, locates_inline_constants_and_keeps_the_keys_of_named_ones) {
  const auto b = embedding_blob();
  const auto blob = b.finish();
  const auto graph = read_blob(blob, sizes_of(b));
  ASSERT_TRUE(succeeds(graph));
  ASSERT_EQ(graph->constants.size(), 2U);
  EXPECT_TRUE(graph->constants[0].located);
  EXPECT_EQ(graph->constants[0].length, 160U);
  EXPECT_EQ(graph->constants[0].offset, blob.size() - 160);
  EXPECT_FALSE(graph->constants[1].located);
  EXPECT_EQ(graph->constants[1].key, "scales");
  EXPECT_EQ(graph->constants[1].length, 80U);
}

TEST(DelegateBlob, reads_every_kind_of_value) {
  const auto graph = read(every_kind_blob());
  ASSERT_TRUE(succeeds(graph));
  const auto& values = graph->values;
  EXPECT_EQ(graph->tensor(0)->dtype, DType::f16);
  EXPECT_EQ(graph->tensor(0)->staging, DType::f32);
  EXPECT_EQ(graph->tensor(1)->staging, DType::f32) << "an unset staging type is the tensor's own";
  EXPECT_EQ(graph->tensor(1)->mem_obj, 2);
  EXPECT_EQ(graph->tensor(1)->constant, 0);
  EXPECT_EQ(graph->tensor(2)->shape.numel(), 0);
  EXPECT_EQ(graph->tensor(3)->shape.rank(), 0U);
  EXPECT_EQ(graph->tensor(3)->constant, -1);
  EXPECT_TRUE(std::holds_alternative<SymInt>(values[4]));
  EXPECT_TRUE(std::holds_alternative<Null>(values[6]));
  EXPECT_EQ(std::get<double>(values[7]), 2.0);
  EXPECT_EQ(std::get<IntList>(values[8]), (IntList{-1, 4}));
  EXPECT_EQ(std::get<DoubleList>(values[9]), (DoubleList{0.5, 1.5}));
  EXPECT_EQ(std::get<BoolList>(values[10]), (BoolList{true, false, true}));
  EXPECT_EQ(std::get<std::string>(values[11]), "floor");
  EXPECT_EQ(std::get<ValueList>(values[12]).items, (std::vector<ValueId>{0, 1}));
  EXPECT_EQ(std::get<ValueList>(values[13]).items, (std::vector<ValueId>{12, 8}));
  EXPECT_EQ(graph->outputs, (std::vector<ValueId>{3, 5, 3}));
}

TEST(DelegateBlob, absent_fields_mean_zero) {
  // What a FlatBuffer leaves out: bool, constant 0, memory 0.
  BlobBuilder b;
  b.raw_constant(0, 0);
  b.raw_tensor({.datatype = 0, .dims = {0}, .constant_id = 0, .mem_obj_id = 0});
  b.integer(0);
  const auto graph = read(b);
  ASSERT_TRUE(succeeds(graph));
  EXPECT_EQ(graph->tensor(0)->dtype, DType::boolean);
  EXPECT_EQ(graph->tensor(0)->constant, 0);
  EXPECT_EQ(graph->tensor(0)->mem_obj, 0);
  EXPECT_EQ(std::get<std::int64_t>(graph->values[1]), 0);
}

TEST(DelegateBlob, keeps_64_bit_device_tensors_for_the_planner_to_refuse) {
  BlobBuilder b;
  b.tensor(DType::i64, {2});
  b.tensor(DType::f64, {2});
  const auto graph = read(b);
  ASSERT_TRUE(succeeds(graph));
  EXPECT_EQ(graph->tensor(0)->dtype, DType::i64);
  EXPECT_EQ(graph->tensor(1)->dtype, DType::f64);
}

TEST(DelegateBlob, reads_from_any_address) {
  const auto b = embedding_blob();
  const auto blob = b.finish();
  for (std::size_t shift = 1; shift < 8; ++shift) {
    Bytes moved(shift);
    moved.insert(moved.end(), blob.begin(), blob.end());
    EXPECT_TRUE(succeeds(read_blob(std::span(moved).subspan(shift), sizes_of(b)))) << shift;
  }
}

TEST(DelegateBlob, reads_64_bit_lists_from_any_address) {
  // Moved by 4 bytes, the list begins with its own first number as its length.
  BlobBuilder b;
  b.ints({2, 3, 4});
  auto blob = b.finish();
  const auto* list = vkgraph::GetVkGraph(blob.data() + 32)->values()->Get(0)->value_as_IntList();
  auto* table = reinterpret_cast<std::byte*>(const_cast<vkgraph::IntList*>(list));
  std::int32_t to_vtable = 0;
  std::memcpy(&to_vtable, table, sizeof(to_vtable));
  std::uint16_t field = 0;
  std::memcpy(&field, table - to_vtable + vkgraph::IntList::VT_ITEMS, sizeof(field));
  std::uint32_t offset = 0;
  std::memcpy(&offset, table + field, sizeof(offset));
  offset += 4;
  std::memcpy(table + field, &offset, sizeof(offset));
  const auto graph = read_blob(blob, sizes_of(b));
  ASSERT_TRUE(succeeds(graph));
  EXPECT_EQ(std::get<IntList>(graph->values[0]), (IntList{3LL << 32, 4LL << 32}));
}

TEST(DelegateBlob, takes_the_rest_as_constants_when_the_header_gives_no_size) {
  BlobBuilder b;
  b.constant(DType::u8, {16}, std::vector<std::uint8_t>(16, 7));
  auto blob = b.finish();
  for (std::size_t i = 22; i < 30; ++i) blob[i] = std::byte{0};
  const auto graph = read_blob(blob, sizes_of(b));
  ASSERT_TRUE(succeeds(graph));
  EXPECT_EQ(graph->constants[0].offset, blob.size() - 16);
}

TEST(DelegateBlob, several_tensors_may_share_a_constant) {
  BlobBuilder b;
  b.constant(DType::u8, {4, 4}, std::vector<std::uint8_t>(16, 7));
  b.raw_tensor({.datatype = 1, .dims = {16}, .constant_id = 0});
  b.raw_tensor({.datatype = 5, .dims = {4}, .constant_id = 0});
  EXPECT_TRUE(succeeds(read(b)));
}

TEST(DelegateBlob, an_empty_graph_is_valid) { EXPECT_TRUE(succeeds(read(BlobBuilder{}))); }

}  // namespace
}  // namespace nibble::test
