// The C API's tensors as those of nibble.hpp.
#include <algorithm>

#include "api/capi.hpp"
#include "boundary/boundary.hpp"

namespace nibble::capi {
namespace {

Result<DType> dtype_of(const nibble_tensor& tensor, std::string_view what, std::size_t index) {
  if (tensor.dtype < NIBBLE_BOOL || tensor.dtype > NIBBLE_INT64) {
    return fail(ErrorCode::invalid_argument, "{} {} has the unknown dtype number {}", what, index, tensor.dtype);
  }
  return static_cast<DType>(tensor.dtype);
}

Status read_input(const nibble_tensor& from, std::size_t index, HostTensor& to) {
  to = {};
  to.is_int = from.is_int != 0;
  to.integer = from.integer;
  if (from.word != nullptr) to.word = from.word;
  if (to.is_int) return {};
  if (to.word.empty()) {
    TRY_ASSIGN(to.dtype, dtype_of(from, "input", index));
  }
  if (from.rank > NIBBLE_MAX_RANK) {
    return std::unexpected(too_many_dimensions(fmt::format("input {}", index), from.rank));
  }
  for (std::uint32_t i = 0; i < from.rank; ++i) to.shape.push_back(from.shape[i]);
  to.data = from.data;
  // A shape that is no shape is the boundary's to refuse.
  const auto bytes = to.word.empty() ? Size::bytes(to.shape, to.dtype) : Size(0);
  if (to.data != nullptr && bytes.valid() && !bytes.fits(from.bytes)) {
    return fail(ErrorCode::invalid_argument, "input {} has shape {} and takes {} bytes as {}, but {} are given", index,
                to.shape, bytes.unchecked(), to.dtype, from.bytes);
  }
  return {};
}

}  // namespace

bool read_inputs(const Model& model, const nibble_tensor* inputs, std::size_t count, std::vector<HostTensor>& to) {
  if (count != 0 && !is_there(inputs, "list of inputs")) return false;
  // Check the count before reading any input: there may be fewer than `count` says.
  if (const auto wanted = model.inputs().size(); count != wanted) {
    failed(wrong_input_count(count, wanted));
    return false;
  }
  to.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!ok(read_input(inputs[i], i, to[i]))) return false;
  }
  return true;
}

bool check_outputs(const Model& model, const nibble_tensor* outputs, std::size_t count) {
  if (count != 0 && !is_there(outputs, "list of outputs")) return false;
  if (const auto wanted = model.outputs().size(); count != wanted) {
    failed(wrong_output_count(count, wanted));
    return false;
  }
  return true;
}

bool read_outputs(const Model& model, const nibble_tensor* outputs, std::size_t count, std::vector<HostOutput>& to) {
  if (!check_outputs(model, outputs, count)) return false;
  to.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto dtype = dtype_of(outputs[i], "output", i);
    if (!dtype) {
      failed(std::move(dtype).error());
      return false;
    }
    to[i] = {*dtype, outputs[i].data, outputs[i].bytes};
  }
  return true;
}

void write_shape(const Shape& shape, nibble_tensor& to) {
  to.rank = static_cast<std::uint32_t>(shape.rank());
  std::ranges::copy(shape.dims(), to.shape);
}

bool describe(const std::vector<TensorInfo>& all, std::size_t index, std::string_view what, nibble_tensor* out) {
  if (!is_there(out, "place for the answer")) return false;
  if (index >= all.size()) {
    failed(
        {ErrorCode::invalid_argument, fmt::format("there is no {} {}: the program has {}", what, index, all.size())});
    return false;
  }
  *out = {};
  out->dtype = static_cast<std::int32_t>(all[index].dtype);
  out->is_int = all[index].is_int ? 1 : 0;
  write_shape(all[index].shape, *out);
  return true;
}

}  // namespace nibble::capi
