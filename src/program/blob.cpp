#include "program/blob.hpp"

#include <algorithm>
#include <array>

#include "graph/check.hpp"
#include "program/checks.hpp"
#include "schema_generated.h"

namespace nibble {

namespace {

constexpr std::size_t kHeaderBytes = 30;

/// Where things are in the blob.
struct BlobHeader {
  std::size_t graph_offset = 0;
  std::size_t graph_size = 0;
  std::uint64_t raw_offset = 0;
  std::uint64_t raw_size = 0;
};

/// `blob` is its first kHeaderBytes bytes, `size` that of all.
Result<BlobHeader> read_header(std::span<const std::byte> blob, std::uint64_t size) {
  if (std::memcmp(blob.data() + 4, "VH00", 4) != 0) {
    return fail(ErrorCode::invalid_program, "the delegate blob does not have the magic VH00: its first bytes are {}",
                hex(blob.first(8)));
  }
  const auto header_size = load<std::uint16_t>(blob, 8);
  BlobHeader header;
  header.graph_offset = load<std::uint32_t>(blob, 10);
  header.graph_size = load<std::uint32_t>(blob, 14);
  header.raw_offset = load<std::uint32_t>(blob, 18);
  header.raw_size = load<std::uint64_t>(blob, 22);

  if (header_size < kHeaderBytes) {
    return fail(ErrorCode::invalid_program, "the delegate blob's header says it has {} bytes, but {} is the least",
                header_size, kHeaderBytes);
  }
  if (header.graph_offset < header_size) {
    return fail(ErrorCode::invalid_program,
                "the delegate graph starts at byte {}, inside the blob's header of {} bytes", header.graph_offset,
                header_size);
  }
  if (header.graph_size == 0) return fail(ErrorCode::invalid_program, "the delegate graph has 0 bytes");
  const Size graph_end = Size(header.graph_offset) + header.graph_size;
  if (!graph_end.fits(size)) {
    return fail(ErrorCode::invalid_program, "the delegate graph has {} bytes from {} on, but the blob ends at {}",
                header.graph_size, header.graph_offset, size);
  }
  if (!graph_end.fits(header.raw_offset)) {
    return fail(ErrorCode::invalid_program, "the delegate graph ends at byte {}, after the raw constants start at {}",
                graph_end.unchecked(), header.raw_offset);
  }
  if (!(Size(header.raw_offset) + header.raw_size).fits(size)) {
    return fail(ErrorCode::invalid_program, "the raw constants have {} bytes from {} on, but the blob ends at {}",
                header.raw_size, header.raw_offset, size);
  }
  // Older exporters wrote 0 as the size, which means the rest of the blob.
  if (header.raw_size == 0) header.raw_size = size - header.raw_offset;
  return header;
}

class GraphReader {
 public:
  GraphReader(const vkgraph::VkGraph& source, const BlobHeader& header, const NamedSize& named)
      : source_(source), header_(header), named_(named), budget_(header.graph_size) {}

  Result<Graph> read() {
    if (const auto shaders = length(source_.shaders()); shaders != 0) {
      return fail(ErrorCode::unsupported, "the delegate graph brings {} shaders of its own, which Nibble cannot run",
                  shaders);
    }
    TRY(read_constants());
    TRY(read_values());
    TRY(check_nesting());
    TRY(read_nodes());
    TRY(pay_for_uses());
    TRY(read_ends(source_.input_ids(), graph_.inputs));
    TRY(read_ends(source_.output_ids(), graph_.outputs));
    TRY(check_ends(graph_, "the delegate graph"));
    return std::move(graph_);
  }

 private:
  Status read_constants() {
    const auto* constants = source_.constants();
    const std::size_t count = length(constants);
    TRY(reserve(graph_.constants, count, "constants of the delegate graph"));
    for (std::size_t i = 0; i < count; ++i) {
      TRY_ASSIGN(Constant constant, read_constant(*get(constants, i), i));
      graph_.constants.push_back(std::move(constant));
    }
    return {};
  }

  Result<Constant> read_constant(const vkgraph::VkBytes& source, std::size_t index) {
    Constant constant;
    constant.length = source.length();
    if (source.named_key() != nullptr && source.named_key()->size() != 0) {
      TRY_ASSIGN(const auto key, read_name(source.named_key(), fmt::format("the key of constant {}", index)));
      TRY(budget_.spend(key.size()));
      constant.key = key;
      TRY_ASSIGN(const std::uint64_t size, named_(key));
      if (size != constant.length) {
        return fail(ErrorCode::invalid_program, "constant {} has {} bytes, but the data named '{}' has {}", index,
                    constant.length, key, size);
      }
      return constant;
    }
    constant.located = true;
    constant.offset = header_.raw_offset;
    if (constant.length == 0) return constant;
    if (!(Size(source.offset()) + constant.length).fits(header_.raw_size)) {
      return fail(ErrorCode::invalid_program,
                  "constant {} has {} bytes from {} on, but the blob's raw constants have {} bytes", index,
                  constant.length, source.offset(), header_.raw_size);
    }
    constant.offset += source.offset();
    return constant;
  }

  Status read_values() {
    const auto* values = source_.values();
    const std::size_t count = length(values);
    TRY(reserve(graph_.values, count, "values of the delegate graph"));
    for (std::size_t i = 0; i < count; ++i) {
      TRY(budget_.spend(sizeof(Value)));
      TRY_ASSIGN(Value value, read_value(*get(values, i), i, count));
      graph_.values.push_back(std::move(value));
    }
    return {};
  }

  Result<Value> read_value(const vkgraph::VkValue& source, std::size_t id, std::size_t count) {
    using vkgraph::GraphTypes;
    if (source.value_type() == GraphTypes::NONE || source.value() == nullptr) {
      return fail(ErrorCode::invalid_program, "value {} of the delegate graph has no content", id);
    }
    switch (source.value_type()) {
      case GraphTypes::NONE: break;
      case GraphTypes::Null: return Null{};
      case GraphTypes::Int: return Value(std::in_place_type<std::int64_t>, source.value_as_Int()->int_val());
      case GraphTypes::Double: return Value(std::in_place_type<double>, source.value_as_Double()->double_val());
      case GraphTypes::Bool: return Value(std::in_place_type<bool>, source.value_as_Bool()->bool_val());
      case GraphTypes::VkTensor: return read_tensor(*source.value_as_VkTensor(), id, count);
      case GraphTypes::IntList: return read_list<IntList>(source.value_as_IntList()->items());
      case GraphTypes::DoubleList: return read_list<DoubleList>(source.value_as_DoubleList()->items());
      case GraphTypes::BoolList: return read_list<BoolList>(source.value_as_BoolList()->items());
      case GraphTypes::ValueList: {
        TRY_ASSIGN(auto items, read_ids(source.value_as_ValueList()->items(), count, fmt::format("list value {}", id)));
        return ValueList{std::move(items)};
      }
      case GraphTypes::String: {
        const auto* text = source.value_as_String()->string_val();
        if (text == nullptr) return fail(ErrorCode::invalid_program, "value {} is a String without text", id);
        TRY(budget_.spend(text->size()));
        return text->str();
      }
      case GraphTypes::SymInt: return SymInt{};
    }
    return fail(ErrorCode::invalid_program, "value {} of the delegate graph has the unknown type {}", id,
                static_cast<unsigned>(source.value_type()));
  }

  template <class List, class T>
  Result<Value> read_list(const flatbuffers::Vector<T>* items) {
    TRY(budget_.spend(Size(length(items)) * sizeof(T)));
    List list;
    list.reserve(length(items));
    for (std::size_t i = 0; i < length(items); ++i) {
      list.push_back(static_cast<typename List::value_type>(get(items, i)));
    }
    return Value(std::move(list));
  }

  Result<Value> read_tensor(const vkgraph::VkTensor& source, std::size_t id, std::size_t count) {
    const std::string name = fmt::format("value {}", id);
    TensorValue tensor;
    TRY_ASSIGN(tensor.dtype, read_dtype(source.datatype(), name, "datatype"));
    tensor.staging = tensor.dtype;
    if (source.staging_datatype() != vkgraph::VkDataType::UNSET) {
      TRY_ASSIGN(tensor.staging, read_dtype(source.staging_datatype(), name, "staging datatype"));
    }
    TRY(check_rank(length(source.dims()), name));
    for (std::size_t i = 0; i < length(source.dims()); ++i) {
      tensor.shape.push_back(get(source.dims(), i));
    }
    TRY_ASSIGN(const std::uint64_t bytes, tensor_bytes(tensor.shape, tensor.dtype, name));

    tensor.mem_obj = source.mem_obj_id();
    if (tensor.mem_obj < -1 || tensor.mem_obj >= static_cast<std::int64_t>(count)) {
      return fail(ErrorCode::invalid_program,
                  "value {} has the memory id {}, but only -1 to {} make sense with {} values", id, tensor.mem_obj,
                  static_cast<std::int64_t>(count) - 1, count);
    }
    tensor.constant = source.constant_id();
    if (tensor.constant < -1 || tensor.constant >= static_cast<std::int64_t>(graph_.constants.size())) {
      return fail(ErrorCode::invalid_program, "value {} is constant {}, but the delegate graph has {} constants", id,
                  tensor.constant, graph_.constants.size());
    }
    if (tensor.constant >= 0) {
      const std::uint64_t length = graph_.constants[static_cast<std::size_t>(tensor.constant)].length;
      if (length != bytes) {
        return fail(ErrorCode::invalid_program,
                    "value {} is a {} tensor of shape {} with {} bytes, but its constant {} has {}", id, tensor.dtype,
                    tensor.shape, bytes, tensor.constant, length);
      }
    }
    return tensor;
  }

  static Result<DType> read_dtype(vkgraph::VkDataType source, std::string_view name, std::string_view field) {
    const auto number = static_cast<int>(source);
    if (number < static_cast<int>(DType::boolean) || number > static_cast<int>(DType::i64)) {
      return fail(ErrorCode::invalid_program, "{} has the unknown {} {}", name, field, number);
    }
    return static_cast<DType>(number);
  }

  Result<std::vector<ValueId>> read_ids(const flatbuffers::Vector<std::int32_t>* source, std::size_t count,
                                        std::string_view what) {
    TRY(budget_.spend(Size(length(source)) * sizeof(std::int32_t)));
    std::vector<ValueId> ids;
    ids.reserve(length(source));
    for (std::size_t i = 0; i < length(source); ++i) {
      const std::int32_t id = get(source, i);
      if (id < 0 || static_cast<std::size_t>(id) >= count) {
        return fail(ErrorCode::invalid_program, "item {} of {} is value {}, but the delegate graph has {} values", i,
                    what, id, count);
      }
      ids.push_back(static_cast<ValueId>(id));
    }
    return ids;
  }

  /// A list of lists is allowed, but nothing deeper. So no list can contain itself.
  Status check_nesting() const {
    const auto list = [&](ValueId id) { return std::get_if<ValueList>(&graph_.values[id]); };
    std::vector<bool> holds_lists(graph_.values.size());
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (const auto* l = list(id)) holds_lists[id] = std::ranges::any_of(l->items, [&](ValueId i) { return list(i); });
    }
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (!holds_lists[id]) continue;
      for (ValueId item : list(id)->items) {
        if (!holds_lists[item]) continue;
        if (item == id || std::ranges::find(list(item)->items, id) != list(item)->items.end()) {
          return fail(ErrorCode::invalid_program, "list value {} of the delegate graph contains itself", id);
        }
        return fail(ErrorCode::invalid_program,
                    "list value {} of the delegate graph holds list value {}, which holds lists again", id, item);
      }
    }
    return {};
  }

  Status read_nodes() {
    const auto* chain = source_.chain();
    const std::size_t count = length(chain);
    TRY(reserve(graph_.nodes, count, "operators of the delegate graph"));
    for (std::size_t i = 0; i < count; ++i) {
      const auto& call = *get(chain, i);
      Node node;
      TRY_ASSIGN(node.op, read_name(call.name(), fmt::format("the name of operator {} of the delegate graph", i)));
      TRY(budget_.spend(sizeof(Node) + node.op.size()));
      if (length(call.args()) == 0) {
        return fail(ErrorCode::invalid_program, "operator {} ({}) of the delegate graph has no arguments", i, node.op);
      }
      TRY_ASSIGN(node.args, read_ids(call.args(), graph_.values.size(),
                                     fmt::format("the arguments of operator {} ({})", i, node.op)));
      graph_.nodes.push_back(std::move(node));
    }
    return {};
  }

  /// Planning looks at all that a list or text holds for each of its uses, so each use is paid like a copy.
  Status pay_for_uses() {
    std::vector<Size> items(graph_.values.size(), 0);
    const auto count = [&](const Value& value, bool is_inner) {
      return std::visit(
          [&]<class T>(const T& one) -> Size {
            Size sum = 0;
            if constexpr (requires { one.items; }) {
              sum = one.items.size();
              for (auto item : one.items) sum = sum + (is_inner ? Size(0) : items[item]);
            } else if constexpr (requires { one.size(); }) {
              sum = one.size();
            }
            return sum;
          },
          value);
    };
    // First lists that hold no lists, then those that do; see check_nesting().
    for (const bool is_inner : {true, false}) {
      for (ValueId id = 0; id < items.size(); ++id) items[id] = count(graph_.values[id], is_inner);
    }
    for (const auto& node : graph_.nodes) {
      for (auto id : node.args) TRY(budget_.spend(items[id] * sizeof(ValueId)));
    }
    return {};
  }

  Status read_ends(const flatbuffers::Vector<std::uint32_t>* source, std::vector<ValueId>& ids) {
    TRY(reserve(ids, length(source), "inputs and outputs of the delegate graph"));
    for (std::size_t i = 0; i < length(source); ++i) ids.push_back(get(source, i));
    return {};
  }

  const vkgraph::VkGraph& source_;
  const BlobHeader& header_;
  const NamedSize& named_;
  Budget budget_;
  Graph graph_;
};

}  // namespace

Result<Graph> read_blob(std::span<const std::byte> blob, const NamedSize& named) {
  return read_blob(MemoryBytes(blob), 0, blob.size(), named);
}

Result<Graph> read_blob(const ByteSource& file, std::uint64_t offset, std::uint64_t size, const NamedSize& named) {
  if (size < kHeaderBytes) {
    return fail(ErrorCode::invalid_program, "the delegate blob has {} bytes, but its header alone takes {}", size,
                kHeaderBytes);
  }
  std::array<std::byte, kHeaderBytes> first{};
  TRY(file.read(offset, first));
  TRY_ASSIGN(const BlobHeader header, read_header(first, size));
  TRY_ASSIGN(const AlignedBytes graph,
             AlignedBytes::copy(file, offset + header.graph_offset, header.graph_size, "the delegate graph"));
  TRY_ASSIGN(const auto* root, verified_root<vkgraph::VkGraph>(graph.bytes(), "VK00", "the delegate graph"));
  return GraphReader(*root, header, named).read();
}

}  // namespace nibble
