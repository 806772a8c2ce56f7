#include "support/blob_builder.hpp"

#include <algorithm>
#include <cstring>

#include "schema_generated.h"

namespace nibble::test {

namespace {

constexpr std::size_t kHeaderBytes = 32;

std::size_t aligned(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

template <class T>
void store(Bytes& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

}  // namespace

int BlobBuilder::tensor(DType dtype, std::vector<std::uint32_t> dims, TensorOptions options) {
  return add_tensor(dtype, std::move(dims), -1, options);
}

int BlobBuilder::constant(DType dtype, std::vector<std::uint32_t> dims, Bytes bytes, TensorOptions options) {
  return add_tensor(dtype, std::move(dims), inline_constant(bytes), options);
}

int BlobBuilder::named_constant(DType dtype, std::vector<std::uint32_t> dims, std::string key, Bytes bytes,
                                TensorOptions options) {
  const int id = raw_constant(~std::uint64_t{0}, bytes.size(), key);
  named_[std::move(key)] = std::move(bytes);
  return add_tensor(dtype, std::move(dims), id, options);
}

int BlobBuilder::raw_constant(std::uint64_t offset, std::uint64_t length, std::string key) {
  constants_.push_back({offset, length, std::move(key)});
  return static_cast<int>(constants_.size()) - 1;
}

int BlobBuilder::inline_constant(const Bytes& bytes) {
  const int id = raw_constant(raw_.size(), bytes.size());
  raw_.insert(raw_.end(), bytes.begin(), bytes.end());
  raw_.resize(aligned(raw_.size()));
  return id;
}

int BlobBuilder::add_tensor(DType dtype, std::vector<std::uint32_t> dims, int constant, const TensorOptions& options) {
  Tensor tensor;
  tensor.datatype = static_cast<int>(dtype);
  tensor.dims = std::move(dims);
  tensor.constant_id = constant;
  tensor.mem_obj_id = options.mem_obj;
  if (options.staging) tensor.staging_datatype = static_cast<int>(*options.staging);
  return add(std::move(tensor));
}

Bytes BlobBuilder::finish() const {
  using vkgraph::GraphTypes;
  flatbuffers::FlatBufferBuilder fb;
  std::vector<flatbuffers::Offset<vkgraph::VkValue>> values;
  for (const auto& value : values_) {
    const auto wrap = [&](GraphTypes type, auto offset) { return vkgraph::CreateVkValue(fb, type, offset.Union()); };
    values.push_back(std::visit(
        Overloaded{
            [&](Null) { return wrap(GraphTypes::Null, vkgraph::CreateNull(fb)); },
            [&](std::int64_t v) { return wrap(GraphTypes::Int, vkgraph::CreateInt(fb, v)); },
            [&](double v) { return wrap(GraphTypes::Double, vkgraph::CreateDouble(fb, v)); },
            [&](bool v) { return wrap(GraphTypes::Bool, vkgraph::CreateBool(fb, v)); },
            [&](const Tensor& t) {
              return wrap(
                  GraphTypes::VkTensor,
                  vkgraph::CreateVkTensor(fb, static_cast<vkgraph::VkDataType>(t.datatype), fb.CreateVector(t.dims),
                                          t.constant_id, t.mem_obj_id, vkgraph::VkStorageType::BUFFER,
                                          vkgraph::VkMemoryLayout::TENSOR_WIDTH_PACKED,
                                          static_cast<vkgraph::VkDataType>(t.staging_datatype)));
            },
            [&](const std::vector<std::int64_t>& v) {
              return wrap(GraphTypes::IntList, vkgraph::CreateIntList(fb, fb.CreateVector(v)));
            },
            [&](const std::vector<double>& v) {
              return wrap(GraphTypes::DoubleList, vkgraph::CreateDoubleList(fb, fb.CreateVector(v)));
            },
            [&](const std::vector<bool>& v) {
              return wrap(GraphTypes::BoolList, vkgraph::CreateBoolList(fb, fb.CreateVector(v)));
            },
            [&](const std::vector<std::int32_t>& v) {
              return wrap(GraphTypes::ValueList, vkgraph::CreateValueList(fb, fb.CreateVector(v)));
            },
            [&](const std::string& v) {
              return wrap(GraphTypes::String, vkgraph::CreateString(fb, fb.CreateString(v)));
            },
            [&](SymInt) { return wrap(GraphTypes::SymInt, vkgraph::CreateSymInt(fb)); },
            [&](Hollow h) { return vkgraph::CreateVkValue(fb, static_cast<GraphTypes>(h.type)); },
        },
        value));
  }
  std::vector<flatbuffers::Offset<vkgraph::OperatorCall>> chain;
  for (std::uint32_t i = 0; i < ops_.size(); ++i) {
    const auto name = fb.CreateString(ops_[i].name);
    const auto args = ops_[i].has_args ? fb.CreateVector(ops_[i].args) : 0;
    chain.push_back(vkgraph::CreateOperatorCall(fb, i, name, args));
  }
  std::vector<flatbuffers::Offset<vkgraph::VkBytes>> constants;
  for (const auto& c : constants_) {
    constants.push_back(vkgraph::CreateVkBytes(fb, c.offset, c.length, c.key.empty() ? 0 : fb.CreateString(c.key)));
  }
  std::vector<flatbuffers::Offset<vkgraph::VkBytes>> shaders;
  for (std::size_t i = 0; i < shaders_; ++i) shaders.push_back(vkgraph::CreateVkBytes(fb));
  vkgraph::FinishVkGraphBuffer(
      fb, vkgraph::CreateVkGraph(fb, fb.CreateString("0"), fb.CreateVector(chain), fb.CreateVector(values),
                                 fb.CreateVector(inputs_), fb.CreateVector(outputs_), fb.CreateVector(constants),
                                 fb.CreateVector(shaders)));

  const std::size_t raw_offset = kHeaderBytes + aligned(fb.GetSize());
  Bytes blob(raw_offset + raw_.size());
  std::memcpy(blob.data() + 4, "VH00", 4);
  store<std::uint16_t>(blob, 8, 30);
  store<std::uint32_t>(blob, 10, kHeaderBytes);
  store<std::uint32_t>(blob, 14, fb.GetSize());
  store<std::uint32_t>(blob, 18, static_cast<std::uint32_t>(raw_offset));
  store<std::uint64_t>(blob, 22, raw_.size());
  std::memcpy(blob.data() + kHeaderBytes, fb.GetBufferPointer(), fb.GetSize());
  std::ranges::copy(raw_, blob.begin() + static_cast<std::ptrdiff_t>(raw_offset));
  return blob;
}

}  // namespace nibble::test
