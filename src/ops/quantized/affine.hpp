// Numbers to integers by scale and zero point, and back.
#pragma once

#include "ops/checks.hpp"
#include "ops/elementwise/strides.hpp"
#include "wgsl.hpp"

namespace nibble::ops {

/// A tensor cut into blocks, each of which has a scale: its elements in order as `view`, and the blocks as `groups`,
/// where sizes of one are repeated.
struct Blocks {
  Shape view;
  Shape groups;
  Shape counts;         ///< of blocks, by dimension
  Shape most_counts;    ///< the same where the tensor is largest
  Shape most_sizes;     ///< of a block
  bool is_runs = true;  ///< each block is one run of elements
};

Result<Blocks> blocks_of(const Lowering& op, const Tensor& input, const LiveInts& block_size);

/// A range that all integers of the type lie in; an error if it is none, or not within the type.
Status set_bounds(const Lowering& op, const std::optional<Number>& low, const std::optional<Number>& high, DType dtype,
                  wgsl::AffineParams& params);

/// A scale and a zero point that the program fixes.
wgsl::AffineParams fixed_params(double scale, double zero, double inverse);
wgsl::AffineParams fixed_params(double scale, double zero);

/// Changes all elements from source to result by one of the modules in affine.wgsl, with fixed factors.
Status change_all(Lowering& op, const Bindings& bind, wgsl::AffineParams params, const Shape& shape,
                  const Shader& change);

}  // namespace nibble::ops
