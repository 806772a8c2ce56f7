// Delegate blobs that lie: each gives a sentence.
#include <cstring>

#include "program/blob.hpp"
#include "schema_generated.h"
#include "support/expect.hpp"
#include "support/named_data.hpp"
#include "support/small_programs.hpp"

namespace nibble::test {
namespace {

/// The graph is what read_blob promises: every id, rank and constant is in range.
void expect_consistent(const Graph& graph, std::size_t blob_size) {
  const auto valid = [&](ValueId id) { return id < graph.values.size(); };
  for (const auto& node : graph.nodes) {
    for (auto id : node.args) ASSERT_TRUE(valid(id));
  }
  for (auto id : graph.inputs) ASSERT_TRUE(valid(id));
  for (auto id : graph.outputs) ASSERT_TRUE(valid(id));
  for (const auto& value : graph.values) {
    if (const auto* list = std::get_if<ValueList>(&value)) {
      for (auto id : list->items) ASSERT_TRUE(valid(id));
    }
    if (const auto* tensor = std::get_if<TensorValue>(&value); tensor != nullptr && tensor->constant >= 0) {
      ASSERT_LT(static_cast<std::size_t>(tensor->constant), graph.constants.size());
      ASSERT_EQ(graph.constants[static_cast<std::size_t>(tensor->constant)].length,
                static_cast<std::uint64_t>(tensor->shape.numel()) * size_of(tensor->dtype));
    }
  }
  for (const auto& constant : graph.constants) {
    if (constant.located) {
      ASSERT_LE(constant.offset + constant.length, blob_size);
    }
  }
}

template <class T>
Bytes header_field(std::size_t offset, T value) {
  auto blob = embedding_blob().finish();
  std::memcpy(blob.data() + offset, &value, sizeof(T));
  return blob;
}

/// A blob in which the length of a vector was overwritten.
template <class Find>
Bytes forged(Find vector, std::uint32_t length) {
  auto blob = every_kind_blob().finish();
  const void* target = vector(*vkgraph::GetVkGraph(blob.data() + 32));
  std::memcpy(const_cast<void*>(target), &length, sizeof(length));
  return blob;
}

Bytes wrap(flatbuffers::FlatBufferBuilder& fb) {
  Bytes blob(32 + fb.GetSize());
  std::memcpy(blob.data() + 4, "VH00", 4);
  const std::uint16_t header = 30;
  const std::uint32_t offset = 32;
  const std::uint32_t size = fb.GetSize();
  const std::uint32_t end = offset + size;
  std::memcpy(blob.data() + 8, &header, 2);
  std::memcpy(blob.data() + 10, &offset, 4);
  std::memcpy(blob.data() + 14, &size, 4);
  std::memcpy(blob.data() + 18, &end, 4);
  std::memcpy(blob.data() + 32, fb.GetBufferPointer(), size);
  return blob;
}

/// Values that all refer to one long list: small in the file, huge when copied.
Bytes shared_lists(bool share_values) {
  flatbuffers::FlatBufferBuilder fb;
  const auto list = vkgraph::CreateIntList(fb, fb.CreateVector(std::vector<std::int64_t>(1000, 7)));
  std::vector<flatbuffers::Offset<vkgraph::VkValue>> values;
  for (int i = 0; i < 1000; ++i) {
    values.push_back(share_values && i > 0 ? values[0]
                                           : vkgraph::CreateVkValue(fb, vkgraph::GraphTypes::IntList, list.Union()));
  }
  if (share_values) values.insert(values.end(), 100000, values[0]);
  vkgraph::FinishVkGraphBuffer(fb, vkgraph::CreateVkGraph(fb, 0, 0, fb.CreateVector(values)));
  return wrap(fb);
}

/// Operators that are all the same one.
Bytes shared_operators() {
  flatbuffers::FlatBufferBuilder fb;
  const std::vector values = {vkgraph::CreateVkValue(fb, vkgraph::GraphTypes::Int, vkgraph::CreateInt(fb, 5).Union())};
  const auto call = vkgraph::CreateOperatorCall(fb, 0, fb.CreateString("aten.neg.default"),
                                                fb.CreateVector(std::vector<std::int32_t>{0, 0}));
  const auto chain = fb.CreateVector(std::vector(20000, call));
  vkgraph::FinishVkGraphBuffer(fb, vkgraph::CreateVkGraph(fb, 0, chain, fb.CreateVector(values)));
  return wrap(fb);
}

struct BrokenBytes {
  const char* name;
  Bytes (*make)();
  const char* message;
};

const BrokenBytes kBrokenBytes[] = {
    {"empty", [] { return Bytes{}; }, "has 0 bytes, but its header alone takes 30"},
    {"cut_in_the_header", [] { return Bytes(29); }, "has 29 bytes"},
    {"zeros", [] { return Bytes(64); }, "magic VH00: its first bytes are 00 00 00 00 00 00 00 00"},
    {"wrong_magic", [] { return header_field(4, std::uint32_t{0x31304856}); },
     "magic VH00: its first bytes are 00 00 00 00 56 48 30 31"},
    {"header_too_small", [] { return header_field(8, std::uint16_t{29}); }, "header says it has 29 bytes"},
    {"header_larger_than_the_offset", [] { return header_field(8, std::uint16_t{33}); },
     "inside the blob's header of 33 bytes"},
    {"graph_inside_the_header", [] { return header_field(10, std::uint32_t{16}); }, "starts at byte 16, inside"},
    {"graph_past_the_end", [] { return header_field(10, std::uint32_t{0xfffffff0}); }, "but the blob ends at"},
    {"graph_of_no_bytes", [] { return header_field(14, std::uint32_t{0}); }, "the delegate graph has 0 bytes"},
    {"graph_larger_than_the_blob", [] { return header_field(14, std::uint32_t{0xffffffff}); }, "but the blob ends at"},
    {"graph_too_small", [] { return header_field(14, std::uint32_t{7}); }, "has 7 bytes, too few"},
    {"raw_region_inside_the_graph", [] { return header_field(18, std::uint32_t{40}); },
     "after the raw constants start at 40"},
    {"raw_region_past_the_end", [] { return header_field(18, std::uint32_t{0xffffffff}); }, "but the blob ends at"},
    {"raw_size_past_the_end", [] { return header_field(22, std::uint64_t{161}); }, "raw constants have 161 bytes"},
    {"raw_size_overflows", [] { return header_field(22, ~std::uint64_t{0}); },
     "raw constants have 18446744073709551615 bytes"},
    {"wrong_identifier", [] { return header_field(36, std::uint32_t{0x31304b56}); },
     "does not have the identifier VK00"},
    {"wrong_root", [] { return header_field(32, std::uint32_t{0x7fffffff}); }, "not a valid FlatBuffer"},
    {"root_at_zero", [] { return header_field(32, std::uint32_t{0}); }, "not a valid FlatBuffer"},
    {"forged_values_length", [] { return forged([](auto& g) { return g.values(); }, 0x1fffffff); },
     "not a valid FlatBuffer"},
    {"forged_values_length_wraps", [] { return forged([](auto& g) { return g.values(); }, 0xffffffff); },
     "not a valid FlatBuffer"},
    {"forged_chain_length", [] { return forged([](auto& g) { return g.chain(); }, 100000); }, "not a valid FlatBuffer"},
    {"forged_inputs_length", [] { return forged([](auto& g) { return g.input_ids(); }, 0x3fffffff); },
     "not a valid FlatBuffer"},
    {"forged_constants_length", [] { return forged([](auto& g) { return g.constants(); }, 1U << 30); },
     "not a valid FlatBuffer"},
    {"forged_args_length", [] { return forged([](auto& g) { return g.chain()->Get(0)->args(); }, 1U << 29); },
     "not a valid FlatBuffer"},
    {"forged_dims_length",
     [] { return forged([](auto& g) { return g.values()->Get(0)->value_as_VkTensor()->dims(); }, 1U << 29); },
     "not a valid FlatBuffer"},
    {"forged_list_length",
     [] { return forged([](auto& g) { return g.values()->Get(8)->value_as_IntList()->items(); }, 1U << 28); },
     "not a valid FlatBuffer"},
    {"forged_name_length", [] { return forged([](auto& g) { return g.chain()->Get(0)->name(); }, 0x7ffffff0); },
     "not a valid FlatBuffer"},
    {"operators_that_are_one", [] { return shared_operators(); }, "add up to more than 8 times"},
    {"values_that_share_one_list", [] { return shared_lists(false); }, "add up to more than 8 times"},
    {"values_that_share_one_value", [] { return shared_lists(true); }, "not a valid FlatBuffer"},
    {"value_of_unknown_type",
     [] {
       flatbuffers::FlatBufferBuilder fb;
       const auto null = vkgraph::CreateNull(fb);
       const std::vector values{vkgraph::CreateVkValue(fb, static_cast<vkgraph::GraphTypes>(12), null.Union())};
       vkgraph::FinishVkGraphBuffer(fb, vkgraph::CreateVkGraph(fb, 0, 0, fb.CreateVector(values)));
       return wrap(fb);
     },
     "value 0 of the delegate graph has the unknown type 12"},
    {"string_without_text",
     [] {
       flatbuffers::FlatBufferBuilder fb;
       const auto text = vkgraph::CreateString(fb);
       const std::vector values{vkgraph::CreateVkValue(fb, vkgraph::GraphTypes::String, text.Union())};
       vkgraph::FinishVkGraphBuffer(fb, vkgraph::CreateVkGraph(fb, 0, 0, fb.CreateVector(values)));
       return wrap(fb);
     },
     "value 0 is a String without text"},
};

struct BrokenGraph {
  const char* name;
  void (*change)(BlobBuilder&);
  const char* message;
};

const BrokenGraph kBrokenGraphs[] = {
    {"argument_out_of_range", [](BlobBuilder& b) { b.op("x", {6}); },
     "item 0 of the arguments of operator 1 (x) is value 6, but the delegate graph has 6 values"},
    {"argument_negative", [](BlobBuilder& b) { b.op("x", {0, -1}); },
     "item 1 of the arguments of operator 1 (x) is value -1"},
    {"argument_huge", [](BlobBuilder& b) { b.op("x", {0x7fffffff}); }, "is value 2147483647"},
    {"operator_without_arguments", [](BlobBuilder& b) { b.op_without_args("x"); },
     "operator 1 (x) of the delegate graph has no arguments"},
    {"operator_without_name", [](BlobBuilder& b) { b.op("", {}); },
     "the name of operator 1 of the delegate graph is missing or empty"},
    {"operator_with_a_name_that_is_no_text", [](BlobBuilder& b) { b.op("a\xff", {}); },
     "has a byte at position 1 that is no text"},
    {"operator_with_a_long_name", [](BlobBuilder& b) { b.op(std::string(5000, 'x'), {}); },
     "is 5000 bytes long, but the limit is 4096"},
    {"input_out_of_range", [](BlobBuilder& b) { b.inputs({6}); },
     "input 0 of the delegate graph is value 6, but there are 6 values"},
    {"output_out_of_range", [](BlobBuilder& b) { b.outputs({3, -1}); },
     "output 1 of the delegate graph is value 4294967295"},
    {"input_of_a_wrong_kind", [](BlobBuilder& b) { b.inputs({4}); }, "of kind Int and not a Tensor or SymInt"},
    {"output_of_a_wrong_kind", [](BlobBuilder& b) { b.outputs({b.list({0})}); }, "of kind ValueList"},
    {"input_that_is_constant", [](BlobBuilder& b) { b.inputs({0}); },
     "input 0 of the delegate graph is value 0, which is constant 0"},
    {"list_item_out_of_range", [](BlobBuilder& b) { b.list({0, 99}); }, "item 1 of list value 6 is value 99"},
    {"list_item_negative", [](BlobBuilder& b) { b.list({-2}); }, "item 0 of list value 6 is value -2"},
    {"list_that_contains_itself", [](BlobBuilder& b) { b.list({0, 6}); },
     "list value 6 of the delegate graph contains itself"},
    {"two_lists_that_contain_each_other",
     [](BlobBuilder& b) {
       b.list({7});
       b.list({6});
     },
     "list value 6 of the delegate graph contains itself"},
    {"three_lists_in_a_circle",
     [](BlobBuilder& b) {
       b.list({7});
       b.list({8});
       b.list({6});
     },
     "which holds lists again"},
    {"lists_nested_too_deep",
     [](BlobBuilder& b) {
       b.list({0});
       b.list({6});
       b.list({7});
     },
     "list value 8 of the delegate graph holds list value 7, which holds lists again"},
    {"ten_thousand_dimensions", [](BlobBuilder& b) { b.tensor(DType::f32, std::vector<std::uint32_t>(10000, 1)); },
     "value 6 is a tensor with 10000 dimensions, but Nibble handles at most 8"},
    {"nine_dimensions", [](BlobBuilder& b) { b.tensor(DType::f32, std::vector<std::uint32_t>(9, 1)); },
     "with 9 dimensions"},
    {"dims_overflow_64_bits", [](BlobBuilder& b) { b.tensor(DType::f32, std::vector<std::uint32_t>(8, 0xffffffff)); },
     "does not fit 63 bits"},
    {"dims_overflow_64_bits_to_a_small_number", [](BlobBuilder& b) { b.tensor(DType::u8, {1U << 31, 1U << 31, 4}); },
     "does not fit 63 bits"},
    {"dims_fill_the_sign_bit", [](BlobBuilder& b) { b.tensor(DType::u8, {1U << 31, 1U << 31, 2}); },
     "does not fit 63 bits"},
    {"bytes_overflow_where_elements_fit", [](BlobBuilder& b) { b.tensor(DType::f32, {1U << 31, 1U << 30}); },
     "does not fit 63 bits"},
    {"dims_overflow_before_a_zero", [](BlobBuilder& b) { b.tensor(DType::f32, {0xffffffff, 0xffffffff, 0}); },
     "does not fit 63 bits"},
    {"constant_bytes_that_wrap_at_32_bits",
     [](BlobBuilder& b) { b.raw_tensor({.datatype = 1, .dims = {1U << 16, 1U << 16, 1}, .constant_id = 0}); },
     "with 4294967296 bytes, but its constant 0 has 160"},
    {"unknown_datatype", [](BlobBuilder& b) { b.raw_tensor({.datatype = 8}); }, "value 6 has the unknown datatype 8"},
    {"negative_datatype", [](BlobBuilder& b) { b.raw_tensor({.datatype = -1}); }, "the unknown datatype -1"},
    {"unset_datatype", [](BlobBuilder& b) { b.raw_tensor({.datatype = 127}); }, "the unknown datatype 127"},
    {"unknown_staging_datatype", [](BlobBuilder& b) { b.raw_tensor({.staging_datatype = 9}); },
     "the unknown staging datatype 9"},
    {"huge_memory_id", [](BlobBuilder& b) { b.raw_tensor({.mem_obj_id = 0x7fffffff}); },
     "value 6 has the memory id 2147483647"},
    {"memory_id_one_too_large", [](BlobBuilder& b) { b.raw_tensor({.mem_obj_id = 7}); },
     "the memory id 7, but only -1 to 6 make sense"},
    {"memory_id_too_negative", [](BlobBuilder& b) { b.raw_tensor({.mem_obj_id = -2}); }, "the memory id -2"},
    {"constant_id_out_of_range", [](BlobBuilder& b) { b.raw_tensor({.constant_id = 2}); },
     "value 6 is constant 2, but the delegate graph has 2 constants"},
    {"constant_id_too_negative", [](BlobBuilder& b) { b.raw_tensor({.constant_id = -2}); }, "value 6 is constant -2"},
    {"constant_shorter_than_its_tensor",
     [](BlobBuilder& b) { b.raw_tensor({.datatype = 1, .dims = {161}, .constant_id = 0}); },
     "with 161 bytes, but its constant 0 has 160"},
    {"constant_longer_than_its_tensor",
     [](BlobBuilder& b) { b.raw_tensor({.datatype = 1, .dims = {159}, .constant_id = 0}); },
     "with 159 bytes, but its constant 0 has 160"},
    {"constant_past_the_raw_region", [](BlobBuilder& b) { b.raw_constant(1, 160); },
     "constant 2 has 160 bytes from 1 on, but the blob's raw constants have 160 bytes"},
    {"constant_range_wraps", [](BlobBuilder& b) { b.raw_constant(~std::uint64_t{0}, 2); },
     "constant 2 has 2 bytes from 18446744073709551615 on"},
    {"constant_of_huge_length", [](BlobBuilder& b) { b.raw_constant(0, ~std::uint64_t{0}); },
     "constant 2 has 18446744073709551615 bytes"},
    {"named_constant_that_is_missing", [](BlobBuilder& b) { b.raw_constant(0, 4, "nobody"); }, "no data of that name"},
    {"named_constant_of_another_length", [](BlobBuilder& b) { b.raw_constant(0, 4, "scales"); },
     "constant 2 has 4 bytes, but the data named 'scales' has 80"},
    {"named_constant_with_a_key_that_is_no_text", [](BlobBuilder& b) { b.raw_constant(0, 4, "a\nb"); },
     "the key of constant 2 has a byte at position 1 that is no text"},
    {"value_without_type", [](BlobBuilder& b) { b.hollow(0); }, "value 6 of the delegate graph has no content"},
    {"value_without_content", [](BlobBuilder& b) { b.hollow(5); }, "value 6 of the delegate graph has no content"},
    {"shaders", [](BlobBuilder& b) { b.shaders(2); }, "brings 2 shaders of its own"},
};

class BrokenBlobBytes : public testing::TestWithParam<BrokenBytes> {};
class BrokenBlobGraph : public testing::TestWithParam<BrokenGraph> {};

TEST_P(BrokenBlobBytes, give_a_sentence) {
  EXPECT_TRUE(fails_with(read_blob(GetParam().make(), sizes_of(embedding_blob())), GetParam().message));
}

TEST_P(BrokenBlobGraph, gives_a_sentence) {
  auto b = embedding_blob();
  GetParam().change(b);
  EXPECT_TRUE(fails_with(read_blob(b.finish(), sizes_of(b)), GetParam().message));
}

const auto kName = [](const auto& param_info) { return std::string(param_info.param.name); };
INSTANTIATE_TEST_SUITE_P(blobs, BrokenBlobBytes, testing::ValuesIn(kBrokenBytes), kName);
INSTANTIATE_TEST_SUITE_P(blobs, BrokenBlobGraph, testing::ValuesIn(kBrokenGraphs), kName);

TEST(DamagedBlob, every_truncation_is_refused) {
  const auto b = embedding_blob();
  const auto blob = b.finish();
  for (std::size_t size = 0; size < blob.size(); ++size) {
    const Bytes cut(blob.begin(), blob.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(read_blob(cut, sizes_of(b))) << size;
  }
}

TEST(DamagedBlob, no_changed_byte_gets_past_the_checks) {
  for (const auto& b : {embedding_blob(), every_kind_blob()}) {
    auto blob = b.finish();
    for (auto& byte : blob) {
      const auto good = byte;
      for (int change = 1; change < 256; change = change < 128 ? change * 2 : change + 127) {
        byte = good ^ static_cast<std::byte>(change);
        if (const auto graph = read_blob(blob, sizes_of(b))) expect_consistent(*graph, blob.size());
      }
      byte = good;
    }
  }
}

}  // namespace
}  // namespace nibble::test
