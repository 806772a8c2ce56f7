#include "support/graph_writer.hpp"

#include <algorithm>

namespace nibble::test {

namespace {

std::vector<std::int32_t> numbers_of(const std::vector<ValueId>& ids) { return {ids.begin(), ids.end()}; }

void add_value(BlobBuilder& b, const Value& value) {
  std::visit(
      [&]<class T>(const T& v) {
        if constexpr (std::is_same_v<T, Null>) {
          b.null();
        } else if constexpr (std::is_same_v<T, std::int64_t>) {
          b.integer(v);
        } else if constexpr (std::is_same_v<T, double>) {
          b.number(v);
        } else if constexpr (std::is_same_v<T, bool>) {
          b.boolean(v);
        } else if constexpr (std::is_same_v<T, TensorValue>) {
          BlobBuilder::Tensor tensor{.datatype = static_cast<int>(v.dtype),
                                     .constant_id = v.constant,
                                     .mem_obj_id = v.mem_obj,
                                     .staging_datatype = static_cast<int>(v.staging)};
          for (auto size : v.shape) tensor.dims.push_back(static_cast<std::uint32_t>(size));
          b.raw_tensor(std::move(tensor));
        } else if constexpr (std::is_same_v<T, IntList>) {
          b.ints(v);
        } else if constexpr (std::is_same_v<T, DoubleList>) {
          b.numbers(v);
        } else if constexpr (std::is_same_v<T, BoolList>) {
          b.booleans(v);
        } else if constexpr (std::is_same_v<T, ValueList>) {
          b.list(numbers_of(v.items));
        } else if constexpr (std::is_same_v<T, std::string>) {
          b.text(v);
        } else {
          b.symint();
        }
      },
      value);
}

}  // namespace

std::optional<BlobBuilder> builder_of(const Graph& graph, std::span<const std::byte> file) {
  BlobBuilder b;
  for (const auto& constant : graph.constants) {
    if (!constant.parts.empty()) return std::nullopt;
    if (!constant.located) {
      b.raw_constant(~std::uint64_t{0}, constant.length, constant.key);
      continue;
    }
    if (constant.offset > file.size() || constant.length > file.size() - constant.offset) return std::nullopt;
    const auto bytes = file.subspan(constant.offset, constant.length);
    b.inline_constant({bytes.begin(), bytes.end()});
  }
  for (const auto& value : graph.values) add_value(b, value);
  for (const auto& node : graph.nodes) {
    if (!node.tail.empty()) return std::nullopt;
    b.op(node.op, numbers_of(node.args));
  }
  b.inputs(graph.inputs);
  b.outputs(graph.outputs);
  return b;
}

}  // namespace nibble::test
