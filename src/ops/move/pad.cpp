// A border of one value round a tensor; a negative border crops it.
#include <algorithm>
#include <bit>

#include "ops/families.hpp"
#include "ops/move/move.hpp"

namespace nibble::ops {
namespace {

struct Border {
  std::int64_t before = 0;
  std::int64_t after = 0;
};

/// Fills in the dimensions, innermost first, then turned round. One with no border of its own becomes part of the next:
/// a border of whole rows is a border of so many elements.
void collapse(const Shape& source, std::span<const Border> borders, wgsl::PadParams& params) {
  std::int64_t inner = 1;
  std::int64_t stride = 1;
  for (std::size_t i = source.rank(); i-- > 0;) {
    const auto [before, after] = borders[i];
    const std::int64_t extent = wrapping_product(source[i], inner);
    if (before == 0 && after == 0 && i > 0) {
      inner = extent;
      continue;
    }
    const std::uint32_t k = params.rank++;
    params.sizes[k] = narrow(wrapping_product(source[i] + before + after, inner));
    params.strides[k] = narrow(stride);
    params.borders[k] = narrow(wrapping_product(before, inner));
    params.extents[k] = narrow(extent);
    stride = wrapping_product(stride, extent);
    inner = 1;
  }
  for (auto* dims : {&params.sizes, &params.strides, &params.borders, &params.extents}) {
    std::reverse(dims->begin(), dims->begin() + params.rank);
  }
  params.rank = std::max(1U, params.rank);
}

/// Counts vec4s, where all runs and borders are whole ones.
void count_vectors(wgsl::PadParams& params) {
  const std::uint32_t last = params.rank - 1;
  if (params.sizes[last] % 4 != 0 || params.borders[last] % 4 != 0 || params.extents[last] % 4 != 0) return;
  params.vectors = 1;
  params.sizes[last] /= 4;
  params.extents[last] /= 4;
  params.borders[last] = static_cast<std::uint32_t>(static_cast<std::int32_t>(params.borders[last]) / 4);
  for (std::uint32_t i = 0; i < last; ++i) params.strides[i] /= 4;
}

Status constant_pad(Lowering& op, const Tensor& self, const LiveInts& pad, const Number& value, Out& out) {
  if (self.dtype != out.dtype) return op.fail("self is {}, but the output is {}", self.dtype, out.dtype);
  if (pad.size() % 2 != 0 || pad.size() > 2 * self.rank()) {
    return op.fail("pad has {} entries, but a self of shape {} takes two for each of its last dimensions", pad.size(),
                   self.shape);
  }
  if (!is_float(self.dtype) && (!value.is_integer || value.integer != static_cast<std::int32_t>(value.integer))) {
    return op.fail("value must be a 32-bit integer for {}, but it is {}", self.dtype, value.value);
  }
  // The first pair is the last dimension's.
  std::array<Border, Shape::kMaxRank> borders{};
  Shape shape = self.shape;
  for (std::size_t i = 0; i < pad.size() / 2; ++i) {
    const std::size_t d = self.rank() - 1 - i;
    borders[d] = {pad[2 * i], pad[2 * i + 1]};
    constexpr std::int64_t kMost = 0x7fffffff;
    shape[d] += std::clamp(borders[d].before, -kMost, kMost) + std::clamp(borders[d].after, -kMost, kMost);
    if (shape[d] < 0 || std::abs(borders[d].before) > kMost || std::abs(borders[d].after) > kMost) {
      return op.fail("pad for dimension {} is {} and {}, but it has {} entries", d, pad[2 * i], pad[2 * i + 1],
                     self.shape[d]);
    }
  }
  TRY(op.set_shape(out, shape));

  wgsl::PadParams params{.quads = quads_of(shape), .sizes = {1}, .extents = {1}};
  params.value = is_float(self.dtype)           ? std::bit_cast<std::uint32_t>(value.to_float())
                 : self.dtype == DType::boolean ? (value.integer != 0 ? 1 : 0)
                                                : narrow(value.integer);
  collapse(self.shape, borders, params);
  count_vectors(params);
  return op.dispatch_quads(wgsl::pad, {moved(op.read("source", self)), moved(op.write("result", out))}, params,
                           {{"type", moved_type(self.dtype)}});
}

constexpr Op kPadOps[] = {
    op<constant_pad>("aten.constant_pad_nd.default", "self, pad, value -> out", "any dims; a negative border crops"),
};

}  // namespace

const Family kPad{"pad", kPadOps};

}  // namespace nibble::ops
