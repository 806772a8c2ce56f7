// Nodes that callers describe, however wrong they are.
#include <gtest/gtest.h>

#include "api/check_node.hpp"

namespace nibble {
namespace {

std::string refusal(std::string_view json) {
  const auto status = check_node(json);
  return status ? "" : status.error().message;
}

std::string nested(std::size_t depth) {
  return R"({"op": "aten.neg.default", "arguments": [)" + std::string(depth, '[') + std::string(depth, ']') +
         R"(], "out": null})";
}

TEST(CheckNode, text_that_is_no_node_is_refused_in_a_short_sentence) {
  EXPECT_EQ(refusal(""), "the node is no JSON");
  EXPECT_EQ(refusal(R"({"op": )"), "the node is no JSON");
  EXPECT_EQ(refusal(R"({"op": 1, "arguments": []})"),
            R"({"op":1,"arguments":[]} describes no node, argument or tensor)");
  EXPECT_LT(refusal('[' + std::string(100000, ' ') + '"' + std::string(100000, 'x') + "\"]").size(), 400);
}

TEST(CheckNode, deep_lists_are_refused) {
  for (const std::size_t depth : {100, 100000}) {
    EXPECT_EQ(refusal(nested(depth)), "the node has lists in lists, deeper than 16");
    EXPECT_EQ(refusal(std::string(depth, '[')), "the node has lists in lists, deeper than 16");
  }
}

TEST(CheckNode, numbers_beyond_63_bits_do_not_become_others) {
  EXPECT_EQ(refusal(R"({"op": "aten.neg.default", "arguments": [{"dtype": "float32", "shape": [18446744073709551615]}],
                        "out": {"dtype": "float32", "shape": [1]}})"),
            R"({"dtype":"float32","shape":[18446744073709551615]} describes no node, argument or tensor)");
  EXPECT_EQ(refusal(R"({"op": "aten.squeeze_copy.dims", "arguments": [{"dtype": "float32", "shape": [2, 1]},
                        [18446744073709551615]], "out": {"dtype": "float32", "shape": [2]}})"),
            "aten.squeeze_copy.dims: dim must be a list of integers, but it is DoubleList");
}

// It would be planned in a shard for each 4 GB.
TEST(CheckNode, a_constant_without_end_is_refused) {
  EXPECT_EQ(refusal(R"({"op": "aten.neg.default", "arguments": [{"dtype": "float32", "constant": true,
                        "shape": [4294967295, 4, 16, 1048576]}], "out": {"dtype": "float32", "shape": [1]}})"),
            "a tensor of shape [4294967295, 4, 16, 1048576] is too large");
  EXPECT_EQ(refusal(R"({"op": "aten.neg.default", "arguments": [{"dtype": "float32",
                        "shape": [4294967296, 4294967296, 0]}], "out": {"dtype": "float32", "shape": [1]}})"),
            "a tensor of shape [4294967296, 4294967296, 0] is too large");
}

// Programs may have the nodes that rewrites make.
TEST(CheckNode, filters_need_groups_that_divide) {
  const auto filter = [](std::string_view shape, std::string_view groups) {
    return refusal(R"({"op": "nibble.filter", "arguments": [{"dtype": "float32", "shape": )" + std::string(shape) +
                   "}, true, " + std::string(groups) + R"(], "out": {"dtype": "float32", "shape": [64, 64]}})");
  };
  EXPECT_EQ(filter("[4, 4, 3, 3]", "4"), "");
  for (const auto* groups : {"0", "-1", "3"}) {
    EXPECT_EQ(filter("[4, 4, 3, 3]", groups), "nibble.filter: weight has shape [4, 4, 3, 3], which has no filters in " +
                                                  std::string(groups) + " groups");
  }
  EXPECT_EQ(filter("[]", "1"), "nibble.filter: weight has shape [], which has no filters in 1 groups");
  EXPECT_EQ(refusal(R"({"op": "nibble.convolution", "arguments": [{"dtype": "float32", "shape": [1, 4, 5, 5]},
                        {"dtype": "float32", "shape": [3, 4]}, null, [1, 1], [1, 1], [0, 0], [1, 1], false, [0, 0], 2,
                        null, null], "out": {"dtype": "float32", "shape": [1, 3, 5, 5]}})"),
            "nibble.convolution: weight does not fit an input of shape [1, 4, 5, 5] in 2 groups");
}

TEST(CheckNode, a_block_of_any_size_divides_nothing) {
  EXPECT_EQ(refusal(R"({"op": "torchao.dequantize_affine.default", "arguments": [{"dtype": "int8", "shape": [0, 4]},
                        [4611686018427387904, 4], {"dtype": "float32", "shape": [0]}, null, null, -128, 127, null],
                        "out": {"dtype": "float32", "shape": [0, 4]}})"),
            "");
}

}  // namespace
}  // namespace nibble
