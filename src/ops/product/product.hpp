// Matrix products: x [batches, rows, depth] times weights, with what follows in the same dispatch. The ops describe a
// product; product.cpp picks the kernel.
#pragma once

#include "ops/checks.hpp"

namespace nibble::ops {

/// A run of columns, as in product_params.wgsl.
struct Section {
  std::uint32_t width = 0;
  std::uint32_t weight_first = 0;
  std::uint32_t scales_first = 0;
  std::uint32_t scales_pitch = 0;
  std::uint32_t result_first = 0;
  std::uint32_t result_width = 0;
  std::uint32_t tiles_end = 0;
  std::uint32_t padding = 0;
};

/// As in product_params.wgsl.
struct ProductParams {
  std::uint32_t rows = 0;
  std::uint32_t depth = 0;
  std::uint32_t batches = 1;
  std::uint32_t row_tiles = 0;
  std::uint32_t column_tiles = 0;
  std::uint32_t weight_pitch = 0;
  std::uint32_t group_size = 1;
  std::uint32_t weight_batch = 0;
  float alpha = 1;
  float beta = 1;
  std::uint32_t addend_row = 0;
  std::uint32_t addend_column = 1;
  std::array<Section, 3> sections{};
};

/// How the weights lie in memory.
enum class Weights : std::uint8_t { rows, columns, q4, q4_swapped };

struct Product {
  ProductParams params{};  ///< but for the tiles, which are the kernel's
  Extent rows{};
  bool varies = false;  ///< depth and columns are not those of a constant
  Weights weights = Weights::rows;
  BufferArg x{};
  BufferArg weight{};
  std::optional<BufferArg> scales{};
  std::optional<BufferArg> addend{};  ///< by the strides in params
  std::array<std::optional<BufferArg>, 3> results{};
  std::size_t sections = 1;
  bool is_gated = false;  ///< silu(section 0) * section 1
};

/// Which kernel makes a product, and how it loads where shapes vary.
extern const Choice kProduct;
extern const Choice kProductLoads;

Status multiply(Lowering& op, Product product);

std::int64_t last_dim(const Tensor& t);
/// A product of all rows of x, if its last dimension is `depth`.
Result<Product> product_of(Lowering& op, const Tensor& x, const Tensor& weight, std::int64_t depth);
/// Out's shape is x's with `width` in the place of its last dimension.
Status set_width(Lowering& op, const Tensor& x, std::int64_t width, Out& out);
/// A bias for so many columns; errors say "but {there_are} 7 {of_what}".
Status check_bias(const Lowering& op, const std::optional<Tensor>& bias, std::int64_t columns,
                  std::string_view there_are = "there are", std::string_view of_what = "columns");
/// A count of elements that kernels reach with 32 bits.
Result<std::uint32_t> narrow(const Lowering& op, Size count, std::string_view what);

}  // namespace nibble::ops
