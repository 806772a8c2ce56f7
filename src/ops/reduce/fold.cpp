#include "ops/reduce/fold.hpp"

#include <algorithm>

namespace nibble::ops {
namespace {

constexpr std::uint32_t kStraight = 1;  // neighbouring elements of a line are neighbours

constexpr Variant kFoldVariants[] = {
    Variant("cores", {}, {Adapters::cpu}, kForCores, {}, "a few threads for each core"),
    Variant("subgroups", {.max_width = 4 * DeviceProfile::kMaxRounds, .subgroups = true},
            {.min_width = 256, .max_width = 16384, .traits = kStraight}, {1, 1, 64}, &wgsl::fold_group,
            "a workgroup takes a line, and its lanes merge what they have without memory"),
    Variant("lanes", {}, {}, kForLanes, {}, "enough threads for any GPU"),
};

/// Appends a dimension, outermost first, to the kept (0) or the folded ones (1); merged with the one before where they
/// are one run.
void append(wgsl::FoldParams& params, std::size_t side, std::uint32_t size, std::uint32_t stride) {
  if (size == 1) return;
  auto& rank = params.rank[side];
  auto& strides = params.strides[side];
  if (rank > 0 && strides[rank - 1] == size * stride) {
    params.sizes[side][rank - 1] *= size;
  } else {
    params.sizes[side][rank++] = size;
  }
  strides[rank - 1] = stride;
}

// A line shorter than this is not shared.
constexpr std::uint32_t kShortest = 256;

/// As few parts as threads can fold: four elements of a run take a round, each one of several dimensions as many as
/// there are, and one.
Size fewest_parts(std::uint64_t width, std::uint64_t rank) {
  const auto rounds = rank <= 1 ? Size(width).div_up(4) : Size(width) * (rank + 1);
  return std::max<std::uint64_t>(1, rounds.div_up(DeviceProfile::kMaxRounds).unchecked());
}

// One thread merges the parts of a line, so a line is cut into as many parts as each of them has elements, at most.
std::uint32_t parts_of(const wgsl::FoldParams& params, std::uint32_t wanted) {
  if (params.lines == 0 || params.width < kShortest) return 1;
  std::uint64_t parts = 1;
  while (4 * parts * parts <= params.width) parts *= 2;
  return narrow(std::max(std::clamp<std::uint64_t>(wanted / params.lines, 1, parts),
                         fewest_parts(params.width, params.rank[1]).unchecked()));
}

Kernel kernel_of(const Shader& shader, const wgsl::FoldParams& params, const Fold& f, std::uint64_t threads,
                 Size work) {
  Kernel kernel{.shader = shader, .params = params, .threads = threads, .work = work, .slots = {{"fold", *f.shader}}};
  if (f.elements != nullptr) kernel.slots.push_back({"elements", *f.elements});
  add_states(kernel, f);
  return kernel;
}

}  // namespace

const Choice kFold{"fold", kFoldVariants};

const Fold kMoments{.shader = &wgsl::fold_moments, .lanes = 4};

Lines lines_of(const Lowering& op, const Tensor& self, const DimSet& is_folded) {
  return lines_of(op, self, self.shape, op.bound(self), is_folded);
}

Lines lines_of(const Lowering& op, const Tensor& self, const Shape& shape, const Shape& bound,
               const DimSet& is_folded) {
  wgsl::FoldParams params{.parts = 1};
  std::array<std::uint64_t, 2> now{1, 1};
  std::array<Size, 2> most{1, 1};
  // A line of nothing has the strides that it has where there is something, so that it is folded in the same way.
  std::uint64_t stride = 1;
  for (const auto size : shape) stride *= static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    const auto size = static_cast<std::uint64_t>(shape[i]);
    const std::size_t side = is_folded[i] ? 1 : 0;
    stride /= std::max<std::uint64_t>(size, 1);
    now[side] *= size;
    most[side] = most[side] * Size::from_signed(bound[i]);
    append(params, side, narrow(size), narrow(stride));
  }
  const auto [kept, folded] = params.rank;
  params.lines = narrow(now[0]);
  params.width = narrow(now[1]);
  params.inner = folded == 0 ? 1 : params.strides[1][folded - 1];
  params.in_quads = folded <= 1 && params.inner == 1 && params.width % 4 == 0 ? 1 : 0;
  // Neighbouring lanes should read neighbouring addresses: along the lines, if those are the innermost dimension.
  params.neighbours = kept > 0 && params.strides[0][kept - 1] == 1 ? 1 : 0;
  const auto extent = [&](std::size_t side) {
    return op.extent(now[side], most[side].valid() ? most[side].unchecked() : When::kAny, {&self});
  };
  const auto folded_dims = std::ranges::count(std::span(is_folded).first(shape.rank()), true);
  return {params, extent(0), extent(1), static_cast<std::size_t>(folded_dims)};
}

void add_states(Kernel& kernel, const Fold& f) {
  kernel.bind.push_back(Scratch::write("states", f.elem).lanes(f.lanes));
  kernel.slots.push_back({"states", f.lanes == 4 ? wgsl::states_4 : f.lanes == 2 ? wgsl::states_2 : wgsl::states_1});
}

Status fold(Lowering& op, const Tensor& self, Lines& lines, const Fold& f, const Variant& variant) {
  auto& params = lines.params;
  const auto& tile = variant.tile;
  params.parts = variant.shader != nullptr ? 1 : parts_of(params, tile.rows);
  // Lines times parts is at most the number of lines, or of wanted states, and no part is shorter than sixteen
  // elements where there are several.
  const auto sixteenths = (Size(lines.count.most) * lines.width.most).div_up(16);
  const auto shared = sixteenths.fits(tile.rows) ? sixteenths.unchecked() : tile.rows;
  const auto always = Size(lines.count.most) * fewest_parts(lines.width.most, lines.folded);
  TRY(op.scratch(Size(std::max(always.unchecked(), shared)) * (4 * std::uint64_t{f.lanes})));
  Kernel kernel = kernel_of(wgsl::fold, params, f, (Size(params.lines) * params.parts * tile.threads).unchecked(),
                            Size(params.lines) * params.width);
  kernel.bind.push_back(op.read("source", self));
  if (variant.shader != nullptr) {
    kernel.shader = *variant.shader;
    kernel.workgroup = tile.threads;
    kernel.whole_groups = true;
    kernel.slots.push_back({"join", wgsl::join_by_subgroups});
  }
  return op.dispatch(kernel);
}

Status fold(Lowering& op, const Tensor& self, Lines& lines, const Fold& f) {
  return fold(op, self, lines, f,
              op.choose(kFold, Facts{.rows = lines.count, .width = lines.width}.trait(
                                   kStraight, lines.params.inner == 1, op.varies({&self}))));
}

Status merge_parts(Lowering& op, wgsl::FoldParams& params, const Fold& f) {
  params.merged = 1;
  return op.dispatch(
      kernel_of(wgsl::fold_merge, params, f, params.parts == 1 ? 0 : params.lines, Size(params.lines) * params.parts));
}

Status finish_lines(Lowering& op, const wgsl::FoldParams& params, const Fold& f, const Out& out, const Shader& finish) {
  Kernel kernel = kernel_of(wgsl::fold_finish, params, f, Size(params.lines).div_up(4).unchecked(), params.lines);
  kernel.bind.push_back(op.write("result", out));
  kernel.slots.push_back({"finish", finish});
  return op.dispatch(kernel);
}

}  // namespace nibble::ops
