// Windows over images, each of which becomes its largest element or the mean: max_pool2d, avg_pool2d, and
// adaptive_avg_pool2d, whose windows divide the image.
#include <algorithm>
#include <limits>

#include "ops/families.hpp"
#include "ops/sample/images.hpp"

namespace nibble::ops {
namespace {

constexpr auto kMostRounds = DeviceProfile::kMaxRounds;
constexpr Variant kPoolVariants[] = {
    Variant("whole", {.max_width = kMostRounds}, {}, {}, {}, "a thread sees all of its windows"),
    Variant("parts", {}, {}, {}, {}, "a window of more elements takes several dispatches"),
};
constexpr Choice kPool{"pool", kPoolVariants};

// Limits that keep planning quick, and coordinates in 32 bits.
constexpr std::uint64_t kMostTaps = 1 << 26;
constexpr std::int64_t kMostSize = 1 << 29;

struct Pool {
  const Shader* windows = nullptr;
  wgsl::PoolParams params{};
  Shape shape{};  ///< of the results
  Extent taps{};  ///< elements of a window
};

Result<Pool> pool_of(const Lowering& op, const Tensor& self, const Shader& windows) {
  if (self.rank() != 3 && self.rank() != 4) {
    return op.fail("self has shape {}, but images have 3 or 4 dimensions", self.shape);
  }
  TRY_ASSIGN(const auto image, image_size(op, self));
  return Pool{&windows, {.planes = planes_of(self.shape), .image = image, .dilation = {1, 1}}, self.shape};
}

/// What a list has for an axis. A single item is for both.
Result<std::int64_t> item(const Lowering& op, std::string_view arg, const Ints& list, std::size_t axis,
                          std::int64_t least) {
  if (list.size() != 1 && list.size() != 2) return op.fail("{} has {} items, but images have 2 axes", arg, list.size());
  const auto value = list[std::min(axis, list.size() - 1)];
  if (value >= least && value <= kMostSize) return value;
  return op.fail("{} is {}, but it must be from {} to {}", arg, value, least, kMostSize);
}

Result<Pool> slide(const Lowering& op, const Tensor& self, const Ints& kernels, const Ints& strides,
                   const Ints& paddings, const Ints* dilations, bool in_ceil_mode) {
  TRY_ASSIGN(auto pool, pool_of(op, self, wgsl::sliding_windows));
  for (std::size_t axis = 0; axis < 2; ++axis) {
    auto& size = pool.shape[self.rank() - 2 + axis];
    TRY_ASSIGN(const auto kernel, item(op, "kernel_size", kernels, axis, 1));
    TRY_ASSIGN(const auto stride, strides.size() == 0 ? kernel : item(op, "stride", strides, axis, 1));
    TRY_ASSIGN(const auto padding, item(op, "padding", paddings, axis, 0));
    TRY_ASSIGN(const auto dilation, dilations == nullptr ? 1 : item(op, "dilation", *dilations, axis, 1));
    const auto extent = (kernel - 1) * dilation + 1;
    if (padding > extent / 2) return op.fail("padding is {}, more than half of a window of {}", padding, extent);
    const auto room = size + 2 * padding - extent + (in_ceil_mode ? stride - 1 : 0);
    if (room < 0 || size > kMostSize - 2 * padding) {
      return op.fail("a window of {} does not fit into {} with a padding of {}", extent, size, padding);
    }
    // The last window begins in the image.
    const auto count = room / stride + 1;
    size = in_ceil_mode && (count - 1) * stride >= size + padding ? count - 1 : count;
    pool.params.kernel[axis] = narrow(kernel);
    pool.params.stride[axis] = narrow(stride);
    pool.params.padding[axis] = narrow(padding);
    pool.params.dilation[axis] = narrow(dilation);
  }
  pool.taps = {std::uint64_t{pool.params.kernel[0]} * pool.params.kernel[1]};
  return pool;
}

struct PoolResult {
  std::string_view name;
  Out out;
};

Status fold_windows(Lowering& op, const Tensor& self, Pool& pool, const Shader& fold, const Shader& finish,
                    std::initializer_list<PoolResult> results) {
  auto& [windows, params, shape, taps] = pool;
  if (taps.now > kMostTaps) return op.fail("a window has {} elements, more than {}", taps.now, kMostTaps);
  const bool is_whole = &op.choose(kPool, {.rows = {}, .width = taps}) == kPoolVariants;
  Kernel kernel{.shader = wgsl::pool,
                .bind = {op.read("source", self)},
                .slots = {{"windows", *windows},
                          {"fold", fold},
                          {"finish", finish},
                          {"carry", is_whole ? wgsl::pool_whole : wgsl::pool_parts}}};
  for (auto [name, out] : results) {
    TRY(op.set_shape(out, shape));
    kernel.bind.push_back(op.write(name, out));
  }
  if (!is_whole) {
    TRY(op.scratch(Size::of(op.bound(results.begin()->out)).div_up(4) * 32));
    kernel.bind.push_back(Scratch::write("states", Elem::i32));
  }
  params.quads = quads_of(shape);
  params.size = {narrow(shape[shape.rank() - 2]), narrow(shape[shape.rank() - 1])};
  const auto most = is_whole ? 1 : std::min(taps.most, kMostTaps);
  for (std::uint64_t first = 0; first < most; first += kMostRounds) {
    params.first = {narrow(first / params.kernel[1]), narrow(first % params.kernel[1])};
    params.taps = narrow(is_whole ? taps.now : std::min(taps.now - std::min(first, taps.now), kMostRounds));
    params.is_first = first == 0 ? 1 : 0;
    params.is_last = first + kMostRounds >= taps.now ? 1 : 0;
    kernel.params = params;
    kernel.threads = params.taps == 0 ? 0 : params.quads;
    kernel.work = Size(params.quads) * params.taps;
    TRY(op.dispatch(kernel));
  }
  return {};
}

Status avg_pool(Lowering& op, const Float<Tensor>& self, const Ints& kernels, const Ints& strides, const Ints& paddings,
                bool in_ceil_mode, bool counts_padding, const std::optional<std::int64_t>& divisor, Float<Out>& out) {
  TRY_ASSIGN(auto pool, slide(op, self, kernels, strides, paddings, nullptr, in_ceil_mode));
  if (divisor && *divisor == 0) return op.fail("divisor_override is 0");
  pool.params.divisor = static_cast<float>(divisor.value_or(0));
  if (counts_padding) pool.params.border = pool.params.padding;
  return fold_windows(op, self, pool, wgsl::pool_sum, wgsl::pool_means, {{"result", out}});
}

Status adaptive_avg_pool(Lowering& op, const Float<Tensor>& self, const LiveInts& output_size, Float<Out>& out) {
  TRY_ASSIGN(auto pool, pool_of(op, self, wgsl::adaptive_windows));
  if (output_size.size() != 2) return op.fail("output_size has {} items, but images have 2 axes", output_size.size());
  Size most = 1;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    auto& size = pool.shape[self.rank() - 2 + axis];
    const auto count = output_size[axis];
    if (!((Size::from_signed(count) + 1) * (Size::from_signed(size) + 1)).fits_u32()) {
      return op.fail("output_size[{}] is {}, which {} entries cannot be shared among", axis, count, size);
    }
    // Windows overlap where the sizes do not divide.
    pool.params.kernel[axis] = count == 0 ? 1 : narrow(size / count + (size % count == 0 ? 0 : 2));
    most = most * Size::from_signed(op.bound(self)[self.rank() - 2 + axis]);
    size = count;
  }
  pool.taps = op.extent(std::uint64_t{pool.params.kernel[0]} * pool.params.kernel[1],
                        most.fits(kMostTaps) ? most.unchecked() : kMostTaps, {&out});
  return fold_windows(op, self, pool, wgsl::pool_sum, wgsl::pool_means, {{"result", out}});
}

Status max_pool(Lowering& op, const Float<Tensor>& self, const Ints& kernels, const Ints& strides, const Ints& paddings,
                const Ints& dilations, bool in_ceil_mode, Float<Out>& out) {
  TRY_ASSIGN(auto pool, slide(op, self, kernels, strides, paddings, &dilations, in_ceil_mode));
  return fold_windows(op, self, pool, wgsl::pool_max, wgsl::pool_values, {{"result", out}});
}

/// Either result may be unwanted.
Status max_pool_with_indices(Lowering& op, const Float<Tensor>& self, const Ints& kernels, const Ints& strides,
                             const Ints& paddings, const Ints& dilations, bool in_ceil_mode, const Outs& outs) {
  TRY_ASSIGN(auto pool, slide(op, self, kernels, strides, paddings, &dilations, in_ceil_mode));
  const bool are_two = outs.size() == 2 && (outs.has(0) || outs.has(1));
  if (!are_two || (outs.has(0) && !is_float(outs[0].dtype)) || (outs.has(1) && outs[1].dtype != DType::i32)) {
    return op.fail("out must hold values, float32 or float16, and indices, int32");
  }
  if (!outs.has(1)) return fold_windows(op, self, pool, wgsl::pool_max, wgsl::pool_values, {{"result", outs[0]}});
  if (!outs.has(0)) return fold_windows(op, self, pool, wgsl::pool_max, wgsl::pool_places, {{"places", outs[1]}});
  return fold_windows(op, self, pool, wgsl::pool_max, wgsl::pool_both, {{"result", outs[0]}, {"places", outs[1]}});
}

constexpr Note kMax = "3 or 4 dims; NaN wins";

constexpr Op kPoolsOps[] = {
    op<avg_pool>("aten.avg_pool2d.default",
                 "self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override -> out",
                 "3 or 4 dims"),
    op<adaptive_avg_pool>("aten._adaptive_avg_pool2d.default", "self, output_size -> out", "3 or 4 dims"),
    op<max_pool>("aten.max_pool2d.default", "self, kernel_size, stride, padding, dilation, ceil_mode -> out", kMax),
    op<max_pool_with_indices>("aten.max_pool2d_with_indices.default",
                              "self, kernel_size, stride, padding, dilation, ceil_mode -> out", kMax),
};

}  // namespace

const Family kPools{"pool", kPoolsOps, {&kPool}};

}  // namespace nibble::ops
