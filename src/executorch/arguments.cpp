#include "arguments.hpp"

#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <algorithm>
#include <array>

#include "boundary/rank.hpp"
#include "graph/status.hpp"

namespace nibble {
namespace {

namespace et = ::executorch::runtime;
using ::executorch::aten::ScalarType;
using ::executorch::aten::SizesType;
using ::executorch::aten::Tensor;

Result<DType> dtype_of(const Tensor& tensor, std::string_view what, std::size_t index) {
  switch (tensor.scalar_type()) {
    case ScalarType::Bool: return DType::boolean;
    case ScalarType::Byte: return DType::u8;
    case ScalarType::Char: return DType::i8;
    case ScalarType::Int: return DType::i32;
    case ScalarType::Half: return DType::f16;
    case ScalarType::Float: return DType::f32;
    case ScalarType::Double: return DType::f64;
    case ScalarType::Long: return DType::i64;
    default:
      return fail(ErrorCode::invalid_argument, "{} {} has ExecuTorch's dtype {}, which Nibble does not take", what,
                  index, et::toString(tensor.scalar_type()));
  }
}

/// Nibble's tensors are row-major, as the exporter makes them.
Status check_order(const Tensor& tensor, std::string_view what, std::size_t index) {
  const auto order = tensor.dim_order();
  if (et::is_contiguous_dim_order(order.data(), order.size())) return {};
  return fail(ErrorCode::invalid_argument, "{} {} has the dimension order [{}], but it must be row-major", what, index,
              fmt::join(order.begin(), order.end(), ", "));
}

}  // namespace

Result<HostTensor> input_of(const et::EValue& value, std::size_t index) {
  HostTensor input;
  if (value.isInt()) {
    input.is_int = true;
    input.integer = value.toInt();
    return input;
  }
  if (!value.isTensor()) {
    return fail(ErrorCode::invalid_argument, "input {} is neither a tensor nor an integer (ExecuTorch's tag {})", index,
                static_cast<int>(value.tag));
  }
  const Tensor& tensor = value.toTensor();
  TRY(check_order(tensor, "input", index));
  TRY_ASSIGN(input.dtype, dtype_of(tensor, "input", index));
  for (const auto size : tensor.sizes()) {
    if (!input.shape.push_back(size)) {
      return std::unexpected(
          too_many_dimensions(fmt::format("input {}", index), static_cast<std::uint64_t>(tensor.dim())));
    }
  }
  input.data = tensor.const_data_ptr();
  return input;
}

Result<HostOutput> output_of(et::EValue& value, std::size_t index, const Shape& shape) {
  if (!value.isTensor()) {
    return fail(ErrorCode::invalid_argument,
                "output {} is to be a tensor of shape {}, but is none (ExecuTorch's tag {})", index, shape,
                static_cast<int>(value.tag));
  }
  Tensor& tensor = value.toTensor();
  TRY(check_order(tensor, "output", index));
  HostOutput output;
  TRY_ASSIGN(output.dtype, dtype_of(tensor, "output", index));
  std::array<SizesType, Shape::kMaxRank> sizes{};
  std::ranges::transform(shape, sizes.begin(), [](auto size) { return static_cast<SizesType>(size); });
  if (const auto error = et::resize_tensor(tensor, {sizes.data(), shape.rank()}); error != et::Error::Ok) {
    return fail(ErrorCode::invalid_argument, "output {} cannot take the shape {} (ExecuTorch's error {})", index, shape,
                static_cast<int>(error));
  }
  output.data = tensor.mutable_data_ptr();
  output.bytes = tensor.nbytes();
  if (output.data == nullptr && output.bytes != 0) {
    return fail(ErrorCode::invalid_argument, "output {} has shape {}, but no memory", index, shape);
  }
  return output;
}

}  // namespace nibble
