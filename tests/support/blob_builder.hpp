// Builds delegate blobs (VH00 header, VK00 FlatBuffer, raw constants): valid ones, and any that lie.
//
//   BlobBuilder b;
//   const int ids = b.tensor(DType::i32, {2, 3});
//   const int table = b.constant(DType::u8, {10, 16}, bytes);
//   const int out = b.tensor(DType::f32, {2, 3, 32});
//   b.op("et_vk.embedding_q4gsw.default", {table, scales, b.integer(32), ids, b.boolean(true), out});
//   b.inputs({ids});
//   b.outputs({out});
//   std::vector<std::byte> blob = b.finish();
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "nibble/types.hpp"

namespace nibble::test {

using Bytes = std::vector<std::byte>;

/// The bytes of plain numbers, for constants.
template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

struct TensorOptions {
  std::optional<DType> staging = std::nullopt;  ///< what the host holds, where it differs
  int mem_obj = -1;
};

class BlobBuilder {
 public:
  /// Everything that a tensor in the file says. The numbers are written as they are.
  struct Tensor {
    int datatype = static_cast<int>(DType::f32);
    std::vector<std::uint32_t> dims = {};
    int constant_id = -1;
    int mem_obj_id = -1;
    int staging_datatype = 127;  ///< UNSET
  };

  int tensor(DType dtype, std::vector<std::uint32_t> dims, TensorOptions options = {});
  /// A tensor whose bytes lie in the blob's raw region. A mem_obj marks state that operators may write.
  int constant(DType dtype, std::vector<std::uint32_t> dims, Bytes bytes, TensorOptions options = {});
  template <class T>
  int constant(DType dtype, std::vector<std::uint32_t> dims, const std::vector<T>& values, TensorOptions options = {}) {
    return constant(dtype, std::move(dims), bytes_of(values), options);
  }
  /// A tensor whose bytes lie outside the blob, under a key: see named().
  int named_constant(DType dtype, std::vector<std::uint32_t> dims, std::string key, Bytes bytes,
                     TensorOptions options = {});
  int raw_tensor(Tensor tensor) { return add(std::move(tensor)); }

  int null() { return add(Null{}); }
  int integer(std::int64_t value) { return add(value); }
  int number(double value) { return add(value); }
  int boolean(bool value) { return add(value); }
  int text(std::string value) { return add(std::move(value)); }
  int ints(std::vector<std::int64_t> values) { return add(std::move(values)); }
  int numbers(std::vector<double> values) { return add(std::move(values)); }
  int booleans(std::vector<bool> values) { return add(std::move(values)); }
  /// A list of value ids.
  int list(std::vector<std::int32_t> ids) { return add(std::move(ids)); }
  int symint() { return add(SymInt{}); }
  /// A value whose type number is `type` and that has no content.
  int hollow(std::uint8_t type) { return add(Hollow{type}); }

  void op(std::string name, std::vector<std::int32_t> args) {
    ops_.push_back({std::move(name), std::move(args), true});
  }
  void op_without_args(std::string name) { ops_.push_back({std::move(name), {}, false}); }
  void inputs(std::vector<std::uint32_t> ids) { inputs_ = std::move(ids); }
  void outputs(std::vector<std::uint32_t> ids) { outputs_ = std::move(ids); }
  void inputs(std::initializer_list<int> ids) { inputs_.assign(ids.begin(), ids.end()); }
  void outputs(std::initializer_list<int> ids) { outputs_.assign(ids.begin(), ids.end()); }

  /// A constant as the file describes it, without bytes behind it; returns its id.
  int raw_constant(std::uint64_t offset, std::uint64_t length, std::string key = {});
  /// The same with its bytes in the raw region.
  int inline_constant(const Bytes& bytes);
  void shaders(std::size_t count) { shaders_ = count; }

  Bytes finish() const;
  /// The data behind named constants.
  const std::map<std::string, Bytes>& named() const { return named_; }

  const Tensor* tensor_at(std::uint32_t id) const { return std::get_if<Tensor>(&values_[id]); }
  const std::vector<std::uint32_t>& input_ids() const { return inputs_; }
  const std::vector<std::uint32_t>& output_ids() const { return outputs_; }

 private:
  struct Null {};
  struct SymInt {};
  struct Hollow {
    std::uint8_t type;
  };
  using Value = std::variant<Null, std::int64_t, double, bool, Tensor, std::vector<std::int64_t>, std::vector<double>,
                             std::vector<bool>, std::vector<std::int32_t>, std::string, SymInt, Hollow>;
  struct Op {
    std::string name;
    std::vector<std::int32_t> args;
    bool has_args;
  };
  struct Constant {
    std::uint64_t offset;
    std::uint64_t length;
    std::string key;
  };

  int add(Value value) {
    values_.push_back(std::move(value));
    return static_cast<int>(values_.size()) - 1;
  }
  int add_tensor(DType dtype, std::vector<std::uint32_t> dims, int constant, const TensorOptions& options);

  std::vector<Value> values_;
  std::vector<Op> ops_;
  std::vector<Constant> constants_;
  std::vector<std::uint32_t> inputs_;
  std::vector<std::uint32_t> outputs_;
  std::map<std::string, Bytes> named_;
  Bytes raw_;
  std::size_t shaders_ = 0;
};

}  // namespace nibble::test
