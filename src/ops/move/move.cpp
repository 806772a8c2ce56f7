// Ops whose every output element is one of the input's, found by strides: slices, permutations, repetitions.
#include "ops/move/move.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/families.hpp"

namespace nibble::ops {
namespace {

constexpr std::uint32_t kTurned = 1;  // the source runs along another dimension than the output

constexpr Variant kMoves[] = {
    Variant("transposed", {.traits = kTurned}, {}, {}, &wgsl::move_transposed,
            "both sides are read and written as vec4s"),
    Variant("walk", {}, {}, {}, &wgsl::move, "right for all strides; vec4s where runs are made of them"),
};
const Choice kMoveChoice{"move", kMoves, 0};

constexpr Variant kRuns[] = {
    Variant("four", {}, {Adapters::cpu}, {1, 4}, {},
            "saves threads and index arithmetic: 1.7 times as fast on both software adapters"),
    Variant("one", {}, {}, {1, 1}, {}, "neighbouring lanes touch neighbouring addresses"),
};
const Choice kRunChoice{"run", kRuns, 0};

}  // namespace

std::uint32_t vectors_per_thread(Lowering& op, std::int64_t run) {
  const auto most = op.choose(kRunChoice, {}).tile.columns;
  return run % (std::int64_t{4} * most) == 0 ? most : 1;
}

wgsl::WalkParams walk_params(Lowering& op, const Walk& walk, bool in_vectors) {
  const auto rank = walk.dims.size();
  const std::int64_t vectors = in_vectors ? vectors_per_thread(op, walk.dims[rank - 1].size) : 0;
  const std::int64_t unit = in_vectors ? 4 : 1;
  wgsl::WalkParams params{.threads = quads_of(walk.shape) / std::max(1U, narrow(vectors)),
                          .count = narrow(walk.shape.numel()),
                          .first = narrow(walk.first / unit),
                          .rank = std::max(1U, narrow(rank)),
                          .vectors = narrow(vectors),
                          .sizes = {1}};
  for (std::size_t i = 0; i < rank; ++i) {
    const auto& [size, stride, other_stride] = walk.dims[i];
    const bool is_run = in_vectors && i + 1 == rank;
    params.sizes[i] = narrow(is_run ? size / (4 * vectors) : size);
    params.strides[i] = narrow(is_run ? vectors : stride / unit);
    params.other_strides[i] = narrow(other_stride);
  }
  return params;
}

namespace {

/// A step along the two dimensions of a block is one of four elements.
wgsl::WalkParams transposed_params(const Walk& walk, std::size_t run) {
  const auto rank = walk.dims.size();
  wgsl::WalkParams params{.threads = 1, .first = narrow(walk.first / 4), .rank = narrow(rank)};
  std::int64_t result_stride = 1;
  for (std::size_t i = rank; i-- > 0;) {
    const auto& [size, stride, unused] = walk.dims[i];
    const std::int64_t step = i + 1 == rank || i == run ? 4 : 1;
    if (i + 1 == rank) params.row_stride = narrow(stride / 4);
    if (i == run) params.other_row_stride = narrow(result_stride / 4);
    params.sizes[i] = narrow(size / step);
    params.strides[i] = narrow(wrapping_product(stride, step) / 4);
    params.other_strides[i] = narrow(wrapping_product(result_stride, step) / 4);
    params.threads *= params.sizes[i];
    result_stride = wrapping_product(result_stride, size);
  }
  return params;
}

/// `may_turn`: at the largest shapes, the output's innermost dimension need not be the source's.
Status move(Lowering& op, const Tensor& self, Out& out, Walk walk, bool may_turn = false) {
  if (self.dtype != out.dtype) return op.fail("self is {}, but the output is {}", self.dtype, out.dtype);
  TRY(op.set_shape(out, walk.shape));
  walk.merge();
  const auto run = may_turn && out.numel() != 0 ? walk.source_run() : std::nullopt;
  const auto& variant = op.choose(
      kMoveChoice, Facts{.rows = op.count(out)}.trait(kTurned, run.has_value(), may_turn && op.varies({&self, &out})));
  const auto params =
      &variant == kMoves ? transposed_params(walk, run.value_or(0)) : walk_params(op, walk, walk.is_whole_vectors());
  return op.dispatch({.shader = *variant.shader,
                      .bind = {moved(op.read("source", self)), moved(op.write("result", out))},
                      .params = params,
                      .threads = params.threads,
                      .slots = {{"type", moved_type(self.dtype)}}});
}

using Order = std::array<std::size_t, Shape::kMaxRank>;

Status move_permuted(Lowering& op, const Tensor& self, Out& out, const Order& order) {
  const Walk source(self.shape);
  const std::size_t rank = self.rank();
  Walk walk;
  for (std::size_t i = 0; i < rank; ++i) walk.add(source.dims[order[i]]);
  return move(op, self, out, walk, rank > 0 && order[rank - 1] != rank - 1);
}

Status move_swapped(Lowering& op, const Tensor& self, Out& out, std::size_t a, std::size_t b) {
  Order order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::swap(order[a], order[b]);
  return move_permuted(op, self, out, order);
}

/// Repeating what follows a run can turn it: only the size of one has nothing to run along.
bool ends_in_one(const Lowering& op, const Tensor& self) {
  return self.rank() > 0 && op.bound(self)[self.rank() - 1] == 1;
}

Status slice(Lowering& op, const Tensor& self, std::int64_t dim, std::optional<LiveInt> start,
             std::optional<LiveInt> end, std::int64_t step, Out& out) {
  if (self.rank() == 0) return op.fail("self must have a dimension to slice, but it is a scalar");
  TRY_ASSIGN(const auto d, op.dim(dim, self.rank(), "dim"));
  if (step < 1) return op.fail("step is {}, but it must be at least 1", step);
  const std::int64_t size = self.shape[d];
  const auto within = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  const std::int64_t from = within(start.value_or(0));
  const std::int64_t to = std::max(from, within(end.value_or(size)));
  // Not (to - from + step - 1) / step: a step may be as large as an integer gets.
  const std::int64_t length = to == from ? 0 : (to - from - 1) / step + 1;
  Walk walk(self.shape);
  walk.cut(d, from, length, length > 1 ? step : 1);
  return move(op, self, out, walk);
}

Status select(Lowering& op, const Tensor& self, std::int64_t dim, LiveInt index, Out& out) {
  if (self.rank() == 0) return op.fail("self must have a dimension to select from, but it is a scalar");
  TRY_ASSIGN(const auto d, op.dim(dim, self.rank(), "dim"));
  const std::int64_t size = self.shape[d];
  if (index < -size || index >= size) {
    return fail_range(op, "index is {}, but dimension {} has {} entries", index, d, size);
  }
  const Walk source(self.shape);
  Walk walk;
  walk.first = wrapping_product(index < 0 ? index + size : std::int64_t{index}, source.dims[d].stride);
  for (std::size_t i = 0; i < self.rank(); ++i) {
    if (i != d) walk.add(source.dims[i]);
  }
  return move(op, self, out, walk);
}

Status permute(Lowering& op, const Tensor& self, const Ints& dims, Out& out) {
  if (dims.size() != self.rank()) {
    return op.fail("dims has {} entries, but self has {} dimensions", dims.size(), self.rank());
  }
  Order order{};
  std::array<bool, Shape::kMaxRank> seen{};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    TRY_ASSIGN(order[i], op.dim(dims[i], self.rank(), "dims"));
    if (std::exchange(seen[order[i]], true)) return op.fail("dims names dimension {} twice", order[i]);
  }
  return move_permuted(op, self, out, order);
}

Status transpose(Lowering& op, const Tensor& self, std::int64_t dim0, std::int64_t dim1, Out& out) {
  TRY_ASSIGN(const auto a, op.dim(dim0, self.rank(), "dim0"));
  TRY_ASSIGN(const auto b, op.dim(dim1, self.rank(), "dim1"));
  return move_swapped(op, self, out, a, b);
}

Status transpose_matrix(Lowering& op, const Tensor& self, Out& out) {
  if (self.rank() > 2) return op.fail("self must have at most 2 dimensions, but its shape is {}", self.shape);
  return move_swapped(op, self, out, 0, self.rank() == 2 ? 1 : 0);
}

Status expand(Lowering& op, const Tensor& self, const LiveInts& size, Ignored, Out& out) {
  if (size.size() < self.rank()) {
    return op.fail("size has {} entries, but self has {} dimensions", size.size(), self.rank());
  }
  if (size.size() > Shape::kMaxRank) return op.fail("size has {} entries, more than {}", size.size(), Shape::kMaxRank);
  const Walk source(self.shape, size.size());
  Walk walk;
  for (std::size_t i = 0; i < size.size(); ++i) {
    const auto own = source.dims[i];
    const std::int64_t wanted = size[i] == -1 && i + self.rank() >= size.size() ? own.size : size[i];
    if (wanted < 0 || (own.size != 1 && own.size != wanted)) {
      return op.fail("size[{}] is {}, but a self of shape {} cannot be expanded to it", i, size[i], self.shape);
    }
    walk.add({wanted, own.size == 1 ? 0 : own.stride});
  }
  return move(op, self, out, walk, ends_in_one(op, self));
}

/// Through the elements as they are stored, one after the other.
Status as_strided(Lowering& op, const Tensor& self, const LiveInts& size, const LiveInts& stride,
                  std::optional<LiveInt> offset, Out& out) {
  if (size.size() != stride.size() || size.size() > Shape::kMaxRank)
    return op.fail("size has {} entries and stride {}, but both need as many, at most {}", size.size(), stride.size(),
                   Shape::kMaxRank);
  Walk walk;
  walk.first = offset.value_or(0);
  Size end = Size::from_signed(walk.first) + 1;
  for (std::size_t i = 0; i < size.size(); ++i) {
    if (size[i] < 0) return op.fail("size[{}] is {}, but it must be at least 0", i, size[i]);
    end = end + Size::from_signed(std::max<std::int64_t>(size[i], 1) - 1) * Size::from_signed(stride[i]);
    walk.add({size[i], stride[i]});
  }
  const bool is_empty = std::ranges::find(walk.shape.dims(), 0) != walk.shape.dims().end();
  if (!is_empty && !end.fits(static_cast<std::uint64_t>(self.numel())))
    return op.fail("size, stride and storage_offset {} reach beyond the {} elements of self", walk.first, self.numel());
  return move(op, self, out, walk);
}

Status repeat(Lowering& op, const Tensor& self, const LiveInts& repeats, Out& out) {
  if (repeats.size() < self.rank() || repeats.size() > Shape::kMaxRank) {
    return op.fail("repeats has {} entries, but it needs {} to {}", repeats.size(), self.rank(), Shape::kMaxRank);
  }
  const Walk source(self.shape, repeats.size());
  Walk walk;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    const auto own = source.dims[i];
    const auto size = Size::from_signed(repeats[i]) * Size::from_signed(own.size);
    if (!size.fits_u32()) return op.fail("repeats[{}] is {}, but it must be from 0 to {}", i, repeats[i], 0xffffffff);
    walk.shape.push_back(static_cast<std::int64_t>(size.unchecked()));
    walk.dims.push_back({repeats[i]});
    walk.dims.push_back(own);
  }
  return move(op, self, out, walk, ends_in_one(op, self));
}

Status repeat_interleave(Lowering& op, const Tensor& self, LiveInt repeats, std::optional<std::int64_t> dim, Ignored,
                         Out& out) {
  // Without a dimension, the elements are repeated one by one, as a vector.
  Shape source = dim ? self.shape : Shape{self.numel()};
  TRY_ASSIGN(const auto d, op.dim(dim.value_or(0), source.rank(), "dim"));
  if (source.rank() == 0) source.push_back(1);
  const auto size = Size::from_signed(repeats) * Size::from_signed(source[d]);
  if (!size.fits_u32()) return op.fail("repeats is {}, but it must be from 0 to {}", repeats, 0xffffffff);
  Walk walk;
  for (const Walk in_order(source); const auto& entries : in_order.dims) {
    walk.add(entries);
    if (walk.shape.rank() == d + 1) walk.dims.push_back({repeats});
  }
  walk.shape[d] = static_cast<std::int64_t>(size.unchecked());
  return move(op, self, out, walk, d + 1 == source.rank());
}

Status flip(Lowering& op, const Tensor& self, const Ints& dims, Out& out) {
  std::array<bool, Shape::kMaxRank> turned{};
  Walk walk(self.shape);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    TRY_ASSIGN(const auto d, op.dim(dims[i], self.rank(), "dims"));
    if (std::exchange(turned[d], true)) return op.fail("dims names dimension {} twice", d);
    if (self.rank() > 0) walk.cut(d, self.shape[d] - 1, self.shape[d], -1);
  }
  return move(op, self, out, walk);
}

Status split_with_sizes(Lowering& op, const Tensor& self, const LiveInts& sizes, std::int64_t dim, const Outs& outs) {
  if (self.rank() == 0) return op.fail("self must have a dimension to split, but it is a scalar");
  TRY_ASSIGN(const auto d, op.dim(dim, self.rank(), "dim"));
  if (outs.size() != sizes.size()) {
    return op.fail("split_sizes has {} entries, but there are {} outputs", sizes.size(), outs.size());
  }
  std::int64_t start = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > self.shape[d] - start) {
      return op.fail("split_sizes[{}] is {}, but {} entries of dimension {} are left", i, sizes[i],
                     self.shape[d] - start, d);
    }
    if (outs.has(i)) {
      Out out = outs[i];
      Walk walk(self.shape);
      walk.cut(d, start, sizes[i], 1);
      TRY(move(op, self, out, walk));
    }
    start += sizes[i];
  }
  if (start == self.shape[d]) return {};
  return op.fail("split_sizes add up to {}, but dimension {} has {} entries", start, d, self.shape[d]);
}

Status unfold(Lowering& op, const Tensor& self, std::int64_t dimension, std::int64_t size, std::int64_t step,
              Out& out) {
  TRY_ASSIGN(const auto d, op.dim(dimension, self.rank(), "dimension"));
  const std::int64_t length = self.rank() == 0 ? 1 : self.shape[d];
  if (step < 1) return op.fail("step is {}, but it must be at least 1", step);
  if (size < 0 || size > length) return op.fail("size is {}, but dimension {} has {} entries", size, d, length);
  Walk walk(self.shape);
  const auto stride = walk.dims[d].stride;
  if (self.rank() > 0) walk.cut(d, 0, (length - size) / step + 1, step);
  walk.add({size, stride});
  if (!walk.fits) return op.fail("self has {} dimensions, one too many", self.rank());
  return move(op, self, out, walk, d + 1 != self.rank());
}

}  // namespace

Status pixel_shuffle(Lowering& op, const Tensor& self, std::int64_t factor, Out& out) {
  const std::size_t rank = self.rank();
  if (rank < 3) return op.fail("self must have at least 3 dimensions, but its shape is {}", self.shape);
  const std::int64_t channels = self.shape[rank - 3];
  const std::int64_t height = self.shape[rank - 2];
  const std::int64_t width = self.shape[rank - 1];
  if (factor < 1 || factor > 0xffff || channels % (factor * factor) != 0) {
    return op.fail("upscale_factor is {}, whose square does not divide {} channels", factor, channels);
  }
  const Walk source(self.shape);
  const std::int64_t channel = source.dims[rank - 3].stride;
  Walk walk;
  for (std::size_t i = 0; i + 3 < rank; ++i) walk.add(source.dims[i]);
  walk.add({channels / (factor * factor), wrapping_product(channel, factor * factor)});
  // A channel's factor × factor neighbours lie between the rows and between the columns.
  walk.dims.push_back(source.dims[rank - 2]);
  walk.dims.push_back({factor, wrapping_product(channel, factor)});
  walk.dims.push_back(source.dims[rank - 1]);
  walk.dims.push_back({factor, channel});
  walk.shape.push_back(wrapping_product(height, factor));
  walk.shape.push_back(wrapping_product(width, factor));
  return move(op, self, out, walk, factor % 4 == 0);
}

namespace {

constexpr std::string_view kSlice = "self, dim, start, end, step -> out";
constexpr std::string_view kSelect = "self, dim, index -> out";

constexpr Op kMoveOps[] = {
    op<slice>("aten.slice_copy.Tensor", kSlice, "start and end may be SymInts; steps"),
    op<slice>("aten.slice.Tensor", kSlice, "as slice_copy"),
    op<select>("aten.select_copy.int", kSelect, "the index may be a SymInt; a negative one counts from the live end"),
    op<select>("aten.select.int", kSelect, "as select_copy"),
    op<permute>("aten.permute_copy.default", "self, dims -> out"),
    op<permute>("aten.permute.default", "self, dims -> out"),
    op<transpose>("aten.transpose_copy.int", "self, dim0, dim1 -> out"),
    op<transpose_matrix>("aten.t_copy.default", "self -> out"),
    op<expand>("aten.expand_copy.default", "self, size, implicit -> out", "sizes may be SymInts or -1"),
    op<as_strided>("aten.as_strided_copy.default", "self, size, stride, storage_offset -> out",
                   "of the elements in order; sizes, strides and the offset may be SymInts"),
    op<repeat>("aten.repeat.default", "self, repeats -> out", "repeats may be SymInts"),
    op<repeat_interleave>("aten.repeat_interleave.self_int", "self, repeats, dim, output_size -> out",
                          "along a dimension, or of all elements"),
    op<flip>("aten.flip.default", "self, dims -> out"),
    op<split_with_sizes>("aten.split_with_sizes_copy.default", "self, split_sizes, dim -> out", "sizes may be SymInts"),
    op<unfold>("aten.unfold_copy.default", "self, dimension, size, step -> out"),
    op<pixel_shuffle>("aten.pixel_shuffle.default", "self, upscale_factor -> out"),
};

}  // namespace

const Family kMove{"move", kMoveOps, {&kMoveChoice, &kRunChoice}};

}  // namespace nibble::ops
