// What ops on images have in common: tensors whose last two dimensions are height and width.
#pragma once

#include "ops/checks.hpp"
#include "wgsl.hpp"

namespace nibble::ops {

/// Height and width, of which there must be something.
inline Result<std::array<std::uint32_t, 2>> image_size(const Lowering& op, const Tensor& images) {
  const auto height = images.shape[images.rank() - 2];
  const auto width = images.shape[images.rank() - 1];
  if (height < 1 || width < 1) return op.fail("{} has shape {}: images without elements", images.arg, images.shape);
  return std::array{narrow(height), narrow(width)};
}

/// How many images there are.
inline std::uint32_t planes_of(const Shape& images) {
  return narrow(wrapping_product(images.dims().first(images.rank() - 2)));
}

}  // namespace nibble::ops
