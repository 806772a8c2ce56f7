#include "program/host_tensor.hpp"

#include <optional>

#include "program/checks.hpp"

namespace nibble {

namespace et = executorch_flatbuffer;

namespace {

std::optional<DType> host_dtype(et::ScalarType type) {
  switch (type) {
    case et::ScalarType::BYTE: return DType::u8;
    case et::ScalarType::CHAR: return DType::i8;
    case et::ScalarType::INT: return DType::i32;
    case et::ScalarType::LONG: return DType::i64;
    case et::ScalarType::HALF: return DType::f16;
    case et::ScalarType::FLOAT: return DType::f32;
    case et::ScalarType::DOUBLE: return DType::f64;
    case et::ScalarType::BOOL: return DType::boolean;
    default: return std::nullopt;
  }
}

/// Whether the elements are stored row by row. Dimensions of size 1 may stand anywhere in the order.
Result<bool> is_row_major(const et::Tensor& tensor, const Shape& shape, std::string_view what) {
  if (length(tensor.dim_order()) == 0) return true;
  if (length(tensor.dim_order()) != shape.rank()) {
    return fail(ErrorCode::invalid_program, "{} has {} dimensions, but an order of {}", what, shape.rank(),
                length(tensor.dim_order()));
  }
  std::size_t seen = 0;
  int last = -1;
  bool row_major = true;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    const int dim = get(tensor.dim_order(), i);
    if (static_cast<std::size_t>(dim) >= shape.rank() || (seen >> dim & 1) != 0) {
      return fail(ErrorCode::invalid_program, "{} of rank {} has a wrong dimension order: its entry {} is {}", what,
                  shape.rank(), i, dim);
    }
    seen |= std::size_t{1} << dim;
    if (shape[static_cast<std::size_t>(dim)] == 1) continue;
    row_major = row_major && dim > last;
    last = dim;
  }
  return row_major;
}

}  // namespace

Result<HostValue> read_host_tensor(const et::Tensor& tensor, std::string_view what) {
  HostValue host;
  const auto dtype = host_dtype(tensor.scalar_type());
  if (!dtype) {
    return fail(ErrorCode::unsupported, "{} has the element type {} ({}), which Nibble does not handle", what,
                et::EnumNameScalarType(tensor.scalar_type()), static_cast<int>(tensor.scalar_type()));
  }
  host.dtype = *dtype;
  TRY(check_rank(length(tensor.sizes()), what));
  for (std::size_t i = 0; i < length(tensor.sizes()); ++i) {
    const std::int32_t size = get(tensor.sizes(), i);
    if (size < 0) return fail(ErrorCode::invalid_program, "{} has the negative dimension {} at {}", what, size, i);
    host.shape.push_back(size);
  }
  TRY(tensor_bytes(host.shape, host.dtype, what));
  TRY_ASSIGN(const bool row_major, is_row_major(tensor, host.shape, what));
  if (!row_major) {
    return fail(ErrorCode::unsupported, "{} of shape {} is not stored row by row, which Nibble does not handle", what,
                host.shape);
  }
  host.dynamic = tensor.shape_dynamism() != et::TensorShapeDynamism::STATIC;
  return host;
}

}  // namespace nibble
