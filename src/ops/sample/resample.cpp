// Images seen at other positions: at another size, or where a grid says. And the positions of an image's places.
#include <cmath>

#include "ops/families.hpp"
#include "ops/sample/images.hpp"

namespace nibble::ops {
namespace {

using Resample = wgsl::ResampleParams;

Result<Resample> images_of(const Lowering& op, const Tensor& input, bool align_corners) {
  if (input.rank() != 4) return op.fail("input has shape {}, but it must have 4 dimensions", input.shape);
  TRY_ASSIGN(const auto image, image_size(op, input));
  return Resample{.planes = planes_of(input.shape),
                  .channels = narrow(input.shape[1]),
                  .image = image,
                  .shift = align_corners ? 0.0F : 0.5F};
}

Status resample(Lowering& op, const Tensor& input, const Tensor* grid, Resample& params, const Slots& slots, Out& out,
                std::int64_t height, std::int64_t width) {
  TRY(op.set_shape(out, {input.shape[0], input.shape[1], height, width}));
  params.quads = quads_of(out.shape);
  params.size = {narrow(height), narrow(width)};
  Bindings bind{op.read("source", input), op.write("result", out)};
  if (grid != nullptr) bind.push_back(op.read("grid", *grid).lanes(2));
  return op.dispatch_quads(wgsl::resample, bind, params, slots);
}

Status resize(Lowering& op, const Tensor& input, const std::optional<LiveInts>& output_size, bool align_corners,
              const std::optional<Numbers>& factors, const Slots& slots, Out& out) {
  TRY_ASSIGN(auto params, images_of(op, input, align_corners));
  if (output_size.has_value() == factors.has_value()) {
    return op.fail("either output_size or scale_factors must be given, but {}", factors ? "both are" : "neither is");
  }
  if (const auto items = factors ? factors->size() : output_size->size(); items != 2) {
    return op.fail("{} has {} items, but images have 2 axes", factors ? "scale_factors" : "output_size", items);
  }
  std::array<std::int64_t, 2> size{};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t from = params.image[axis];
    const double wanted =
        factors ? std::trunc(static_cast<double>(from) * (*factors)[axis]) : static_cast<double>((*output_size)[axis]);
    const bool fits = wanted >= 1 && wanted <= 2147483647.0;  // a NaN does not
    if (!fits) return op.fail("cannot make {} rows or columns of {}", wanted, from);
    const auto to = size[axis] = static_cast<std::int64_t>(wanted);
    const auto ratio = [](std::int64_t a, std::int64_t b) { return static_cast<float>(a) / static_cast<float>(b); };
    // As in torch: a factor counts as it is given, not as it comes out, unless the size stays the same.
    params.scale[axis] = from == to      ? 1
                         : align_corners ? (to == 1 ? 0 : ratio(from - 1, to - 1))
                         : factors       ? static_cast<float>(1 / (*factors)[axis])
                                         : ratio(from, to);
    params.last[axis] = static_cast<std::int32_t>(from - 1);
    params.step[axis] = from == to ? 0 : 1;
  }
  return resample(op, input, nullptr, params, slots, out, size[0], size[1]);
}

template <const Shader& positions, const Shader& look, class... Corners>
Status upsample(Lowering& op, const Float<Tensor>& input, const std::optional<LiveInts>& output_size,
                Corners... are_aligned, const std::optional<Numbers>& factors, Float<Out>& out) {
  const Slots slots{{"positions", positions}, {"padding", wgsl::no_padding}, {"look", look}};
  return resize(op, input, output_size, (are_aligned || ...), factors, slots, out);
}

Status grid_sampler(Lowering& op, const Float<Tensor>& input, const Float<Tensor>& grid, std::int64_t interpolation,
                    std::int64_t padding, bool align_corners, Float<Out>& out) {
  constexpr const Shader* kLooks[] = {&wgsl::look_linear, &wgsl::look_nearest, &wgsl::look_cubic};
  constexpr const Shader* kPaddings[] = {&wgsl::zero_padding, &wgsl::border_padding, &wgsl::reflected_padding};
  if (interpolation < 0 || interpolation > 2) {
    return op.fail("interpolation_mode is {}, but there are 0 (bilinear), 1 (nearest) and 2 (bicubic)", interpolation);
  }
  if (padding < 0 || padding > 2) {
    return op.fail("padding_mode is {}, but there are 0 (zeros), 1 (border) and 2 (reflection)", padding);
  }
  TRY_ASSIGN(auto params, images_of(op, input, align_corners));
  const auto& places = grid.shape;
  const auto count = input.shape[0];
  if (grid.rank() != 4 || places[0] != count || places[3] != 2) {
    return op.fail("grid has shape {}, but {} images need [{}, height, width, 2]", places, count, count);
  }
  // Where taps have weights, torch multiplies by them beside the image too.
  params.spoils = interpolation == 2 || (interpolation == 0 && padding == 0) ? 1 : 0;
  params.last = {1 << 30, 1 << 30};
  params.step = {1, 1};
  params.low = -params.shift;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const auto side = static_cast<float>(params.image[axis] - (align_corners ? 1 : 0));
    params.scale[axis] = side / 2;
    params.span[axis] = side == 0 ? 1 : 2 * side;
  }
  const Slots slots{
      {"positions", wgsl::grid_positions}, {"padding", *kPaddings[padding]}, {"look", *kLooks[interpolation]}};
  return resample(op, input, &grid, params, slots, out, places[1], places[2]);
}

Status grid_priors(Lowering& op, const Tensor& self, const Number& stride, const Number& offset, Float<Out>& out) {
  if (self.rank() < 2) return op.fail("self has shape {}, but images have a height and a width", self.shape);
  const auto width = self.shape[self.rank() - 1];
  const auto count = Size::from_signed(self.shape[self.rank() - 2]) * Size::from_signed(width);
  if (!(count * 2).fits_u32()) return op.fail("self has shape {}, too large to count in 32 bits", self.shape);
  TRY(op.set_shape(out, {static_cast<std::int64_t>(count.unchecked()), 2}));
  const wgsl::GridPriorsParams params{
      .quads = quads_of(out.shape), .width = narrow(width), .stride = stride.to_float(), .shift = offset.to_float()};
  return op.dispatch_quads(wgsl::grid_priors, {op.write("result", out)}, params);
}

constexpr Note kSizes = "sizes may be SymInts";
constexpr auto upsample_nearest = upsample<wgsl::whole_positions, wgsl::look_nearest>;
constexpr auto upsample_bilinear = upsample<wgsl::scaled_positions, wgsl::look_linear, bool>;

constexpr Op kResampleOps[] = {
    op<upsample_nearest>("aten.upsample_nearest2d.vec", "input, output_size, scale_factors -> out", kSizes),
    op<upsample_bilinear>("aten.upsample_bilinear2d.vec", "input, output_size, align_corners, scale_factors -> out",
                          kSizes),
    op<grid_sampler>("aten.grid_sampler_2d.default",
                     "input, grid, interpolation_mode, padding_mode, align_corners -> out",
                     "bilinear, nearest, bicubic; zeros, border, reflection"),
    op<grid_priors>("et_vk.grid_priors.default", "self, stride, offset -> out", "any rank from 2"),
};

}  // namespace

const Family kResample{"resample", kResampleOps};

}  // namespace nibble::ops
