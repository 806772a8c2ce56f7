// Matrix products: x [batches, rows, depth] times weights, with what follows in the same dispatch. The ops describe a
// product; product.cpp picks the kernel.
#pragma once

#include "ops/checks.hpp"
#include "wgsl.hpp"

namespace nibble::ops {

/// How the weights lie in memory.
enum class Weights : std::uint8_t { rows, columns, pixels, q4, q4_swapped, q4_columns };

struct Product {
  /// But for the tiles, which are the kernel's.
  wgsl::ProductParams params{.batches = 1, .group_size = 1, .alpha = 1, .beta = 1, .addend_column = 1};
  Extent rows{};
  bool varies = false;     ///< depth and columns are not those of a constant
  bool is_filter = false;  ///< x and the depth are the same in every call, and so are the pixels' alignments
  std::uint64_t max_depth = 0;
  Weights weights = Weights::rows;
  BufferArg x{};
  BufferArg weight{};
  std::optional<BufferArg> scales{};  ///< of groups where weights have 4 bits, else of columns
  std::optional<BufferArg> addend{};  ///< by the strides in params
  std::array<std::optional<BufferArg>, 3> results{};
  std::size_t sections = 1;
  bool has_offsets = false;  ///< behind the scales of 4-bit weights, by `offsets` of the section
  bool is_gated = false;     ///< silu(section 0) * section 1
  bool is_clamped = false;   ///< by params.low and params.high
};

/// Which kernel makes a product, and how it loads where shapes vary.
extern const Choice kProduct;
extern const Choice kProductLoads;
extern const Choice kQ4X;  ///< how threads of CPU adapters come to x

Status multiply(Lowering& op, Product product);
/// By a weight [columns, depth or more], one shard after the other.
Status multiply_table(Lowering& op, Product product, const Table& weight, const Out& out);

/// How products of bytes multiply: a module for the slot `dots`.
extern const Choice kDots;
const Shader& choose_dots(Lowering& op);

std::int64_t last_dim(const Tensor& t);
/// A product of all rows of x, if its last dimension is `depth`.
Result<Product> product_of(Lowering& op, const Tensor& x, const Tensor& weight, std::int64_t depth);
/// Out's shape is x's with `width` in the place of its last dimension.
Status set_width(Lowering& op, const Tensor& x, std::int64_t width, Out& out);
/// A bias for as many columns as `weight` has rows is added.
Status add_bias(Lowering& op, Product& product, const std::optional<Float<Tensor>>& bias, const Tensor& weight);
/// A count of elements that kernels reach with 32 bits.
Result<std::uint32_t> narrow(const Lowering& op, Size count, std::string_view what);

}  // namespace nibble::ops
