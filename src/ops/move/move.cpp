// Ops whose every output element is one of the input's, found by strides: slices, permutations, repetitions.
#include <algorithm>
#include <utility>

#include "ops/move.hpp"
#include "ops/ops.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

/// How an output walks through the source: sizes and distances, outermost first. A dimension of one is left out, and
/// neighbours that make one run are merged. Tiling makes two dimensions of each, so there are up to 16.
struct Walk {
  static constexpr std::size_t kMaxRank = 2 * Shape::kMaxRank;

  std::int64_t first = 0;
  std::size_t rank = 0;
  std::array<std::int64_t, kMaxRank> sizes{};
  std::array<std::int64_t, kMaxRank> strides{};

  void add(std::int64_t size, std::int64_t stride) {
    if (size == 1) return;
    if (rank > 0 && strides[rank - 1] == wrapping_product(size, stride)) {
      sizes[rank - 1] = wrapping_product(sizes[rank - 1], size);
      strides[rank - 1] = stride;
      return;
    }
    sizes[rank] = size;
    strides[rank] = stride;
    ++rank;
  }

  /// The dimension along which the source runs in vec4s, if the output runs along another and both sides can be cut
  /// into blocks of four by four.
  std::optional<std::size_t> source_run() const {
    if (rank < 2 || sizes[rank - 1] % 4 != 0 || first % 4 != 0) return std::nullopt;
    std::optional<std::size_t> run;
    for (std::size_t i = 0; i < rank; ++i) {
      if (strides[i] == 1 && i + 1 < rank && sizes[i] % 4 == 0 && !run) {
        run = i;
      } else if (strides[i] % 4 != 0) {
        return std::nullopt;
      }
    }
    return run;
  }

  /// Whether every run consists of whole vec4s of the source.
  bool is_whole_vectors() const {
    if (rank == 0 || strides[rank - 1] != 1 || sizes[rank - 1] % 4 != 0 || first % 4 != 0) return false;
    for (std::size_t i = 0; i + 1 < rank; ++i) {
      if (strides[i] % 4 != 0) return false;
    }
    return true;
  }
};

Status move_transposed(OpContext& op, const BufferArg& source, const BufferArg& result, const Walk& walk,
                       std::size_t run, std::string_view type) {
  struct Params {
    std::uint32_t blocks = 1;
    std::uint32_t first = 0;
    std::uint32_t rank = 0;
    std::uint32_t row = 0;
    std::uint32_t result_row = 0;
    std::array<std::uint32_t, 3> pad{};
    std::array<std::uint32_t, Walk::kMaxRank> sizes{};
    std::array<std::uint32_t, Walk::kMaxRank> strides{};
    std::array<std::uint32_t, Walk::kMaxRank> result_strides{};
  } params;
  const auto narrow = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  params.first = narrow(walk.first / 4);
  params.rank = narrow(static_cast<std::int64_t>(walk.rank));
  params.row = narrow(walk.strides[walk.rank - 1] / 4);
  std::int64_t result_stride = 1;
  for (std::size_t i = walk.rank; i-- > 0;) {
    // A step along the two dimensions of a block is one of four elements.
    const std::int64_t step = i == run || i + 1 == walk.rank ? 4 : 1;
    if (i == run) params.result_row = narrow(result_stride / 4);
    params.sizes[i] = narrow(walk.sizes[i] / step);
    params.strides[i] = narrow(walk.strides[i] * step / 4);
    params.result_strides[i] = narrow(result_stride * step / 4);
    params.blocks *= params.sizes[i];
    result_stride *= walk.sizes[i];
  }
  return op.dispatch({.shader = wgsl::move_transposed,
                      .bind = {source, result},
                      .params = params_of(params),
                      .threads = params.blocks,
                      .lines = {type}});
}

Status move(OpContext& op, const Tensor& self, Out out, const Shape& shape, Walk walk) {
  if (self.dtype != out.dtype) return op.fail("self is {}, but the output is {}", self.dtype, out.dtype);
  TRY(op.set_shape(out, shape));
  const auto source = op.read("source", self).raw(moved_as(self.dtype));
  const auto result = op.write("result", out).raw(moved_as(self.dtype));
  const std::string_view type = moved_type(self.dtype);
  // Which kernel it is may change from call to call, and a slice by a number that only calls know may be empty until
  // then.
  const std::uint64_t most = quads_of(op.bound(out));
  TRY(op.prepare({.shader = wgsl::move, .bind = {source, result}, .params = {}, .threads = most, .lines = {type}}));
  if (walk.rank > 1 && walk.strides[walk.rank - 1] != 1) {
    TRY(op.prepare({.shader = wgsl::move_transposed,
                    .bind = {source, result},
                    .params = {},
                    .threads = most / 4,
                    .lines = {type}}));
  }
  if (const auto run = walk.source_run(); run && shape.numel() != 0) {
    return move_transposed(op, source, result, walk, *run, type);
  }
  struct Params {
    std::uint32_t threads = 0;
    std::uint32_t count = 0;
    std::uint32_t first = 0;
    std::uint32_t rank = 1;
    std::uint32_t vectors = 0;
    std::array<std::uint32_t, 3> pad{};
    std::array<std::uint32_t, Walk::kMaxRank> sizes{1};
    std::array<std::uint32_t, Walk::kMaxRank> strides{};
  } params;
  if (walk.is_whole_vectors()) {
    auto& run = walk.sizes[walk.rank - 1];
    params.vectors = vectors_per_thread(op, run);
    walk.first /= 4;
    run /= std::int64_t{4} * params.vectors;
    walk.strides[walk.rank - 1] = params.vectors;
    for (std::size_t i = 0; i + 1 < walk.rank; ++i) walk.strides[i] /= 4;
  }
  params.threads = quads_of(shape) / std::max(1U, params.vectors);
  params.count = static_cast<std::uint32_t>(shape.numel());
  params.first = static_cast<std::uint32_t>(walk.first);
  for (std::size_t i = 0; i < walk.rank; ++i) {
    params.sizes[i] = static_cast<std::uint32_t>(walk.sizes[i]);
    params.strides[i] = static_cast<std::uint32_t>(walk.strides[i]);
    params.rank = static_cast<std::uint32_t>(i + 1);
  }
  return op.dispatch({.shader = wgsl::move,
                      .bind = {source, result},
                      .params = params_of(params),
                      .threads = params.threads,
                      .lines = {type}});
}

/// The shape and walk of a part of one dimension; all others as they are.
Status move_part(OpContext& op, const Tensor& self, const Out& out, std::size_t dim, std::int64_t start,
                 std::int64_t length, std::int64_t step) {
  const auto strides = contiguous_strides(self.shape);
  Shape shape = self.shape;
  shape[dim] = length;
  Walk walk{.first = wrapping_product(start, strides[dim])};
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    walk.add(shape[i], wrapping_product(strides[i], i == dim ? step : 1));
  }
  return move(op, self, out, shape, walk);
}

Status move_permuted(OpContext& op, const Tensor& self, const Out& out, std::span<const std::size_t> dims) {
  const auto strides = contiguous_strides(self.shape);
  Shape shape;
  Walk walk;
  for (auto d : dims) {
    shape.push_back(self.shape[d]);
    walk.add(self.shape[d], strides[d]);
  }
  return move(op, self, out, shape, walk);
}

Status move_swapped(OpContext& op, const Tensor& self, const Out& out, std::size_t a, std::size_t b) {
  std::array<std::size_t, Shape::kMaxRank> order{};
  for (std::size_t i = 0; i < self.rank(); ++i) order[i] = i;
  std::swap(order[a], order[b]);
  return move_permuted(op, self, out, std::span(order).first(self.rank()));
}

}  // namespace

Status slice(OpContext& op) {
  TRY_BIND((self, dim, start, end, step, out),
           op.args<Tensor, std::int64_t, std::optional<std::int64_t>, std::optional<std::int64_t>, std::int64_t, Out>(
               {"self", "dim", "start", "end", "step", "out"}));
  if (self.rank() == 0) return op.fail("self must have a dimension to slice, but it is a scalar");
  TRY_ASSIGN(const auto d, op.dim(dim, self.rank(), "dim"));
  if (step < 1) return op.fail("step is {}, but it must be at least 1", step);
  const std::int64_t size = self.shape[d];
  const auto within = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  const std::int64_t from = within(start.value_or(0));
  const std::int64_t to = std::max(from, within(end.value_or(size)));
  // Not (to - from + step - 1) / step: a step may be as large as an integer gets.
  const std::int64_t length = to == from ? 0 : (to - from - 1) / step + 1;
  return move_part(op, self, out, d, from, length, length > 1 ? step : 1);
}

Status select(OpContext& op) {
  TRY_BIND((self, dim, index, out), op.args<Tensor, std::int64_t, std::int64_t, Out>({"self", "dim", "index", "out"}));
  if (self.rank() == 0) return op.fail("self must have a dimension to select from, but it is a scalar");
  TRY_ASSIGN(const auto d, op.dim(dim, self.rank(), "dim"));
  const std::int64_t size = self.shape[d];
  if (index < -size || index >= size) {
    return std::unexpected(
        Error{ErrorCode::out_of_range,
              fmt::format("{}: index is {}, but dimension {} has {} entries", op.name(), index, d, size)});
  }
  const auto strides = contiguous_strides(self.shape);
  Shape shape;
  Walk walk{.first = wrapping_product(index < 0 ? index + size : index, strides[d])};
  for (std::size_t i = 0; i < self.rank(); ++i) {
    if (i == d) continue;
    shape.push_back(self.shape[i]);
    walk.add(self.shape[i], strides[i]);
  }
  return move(op, self, out, shape, walk);
}

Status permute(OpContext& op) {
  TRY_BIND((self, dims, out), op.args<Tensor, Ints, Out>({"self", "dims", "out"}));
  if (dims.size() != self.rank()) {
    return op.fail("dims has {} entries, but self has {} dimensions", dims.size(), self.rank());
  }
  std::array<std::size_t, Shape::kMaxRank> order{};
  std::array<bool, Shape::kMaxRank> seen{};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    TRY_ASSIGN(order[i], op.dim(dims[i], self.rank(), "dims"));
    if (std::exchange(seen[order[i]], true)) return op.fail("dims names dimension {} twice", order[i]);
  }
  return move_permuted(op, self, out, std::span(order).first(dims.size()));
}

Status transpose(OpContext& op) {
  TRY_BIND((self, dim0, dim1, out), op.args<Tensor, std::int64_t, std::int64_t, Out>({"self", "dim0", "dim1", "out"}));
  TRY_ASSIGN(const auto a, op.dim(dim0, self.rank(), "dim0"));
  TRY_ASSIGN(const auto b, op.dim(dim1, self.rank(), "dim1"));
  return move_swapped(op, self, out, a, b);
}

Status transpose_matrix(OpContext& op) {
  TRY_BIND((self, out), op.args<Tensor, Out>({"self", "out"}));
  if (self.rank() > 2) return op.fail("self must have at most 2 dimensions, but its shape is {}", self.shape);
  return move_swapped(op, self, out, 0, self.rank() == 2 ? 1 : 0);
}

Status expand(OpContext& op) {
  TRY_BIND((self, size, implicit, out), op.args<Tensor, Ints, Ignored, Out>({"self", "size", "implicit", "out"}));
  if (size.size() < self.rank()) {
    return op.fail("size has {} entries, but self has {} dimensions", size.size(), self.rank());
  }
  const auto strides = contiguous_strides(self.shape);
  const std::size_t added = size.size() - self.rank();
  Shape shape;
  Walk walk;
  for (std::size_t i = 0; i < size.size(); ++i) {
    const std::int64_t own = i < added ? 1 : self.shape[i - added];
    const std::int64_t wanted = size[i] == -1 && i >= added ? own : size[i];
    if (wanted < 0 || (own != 1 && own != wanted)) {
      return op.fail("size[{}] is {}, but a self of shape {} cannot be expanded to it", i, size[i], self.shape);
    }
    if (!shape.push_back(wanted)) return op.fail("size has {} entries, more than {}", size.size(), Shape::kMaxRank);
    walk.add(wanted, own == 1 ? 0 : strides[i - added]);
  }
  return move(op, self, out, shape, walk);
}

Status repeat(OpContext& op) {
  TRY_BIND((self, repeats, out), op.args<Tensor, Ints, Out>({"self", "repeats", "out"}));
  if (repeats.size() < self.rank() || repeats.size() > Shape::kMaxRank) {
    return op.fail("repeats has {} entries, but it needs {} to {}", repeats.size(), self.rank(), Shape::kMaxRank);
  }
  const auto strides = contiguous_strides(self.shape);
  const std::size_t added = repeats.size() - self.rank();
  Shape shape;
  Walk walk;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    const std::int64_t own = i < added ? 1 : self.shape[i - added];
    const auto size = Size::from_signed(repeats[i]) * Size::from_signed(own);
    if (!size.fits_u32()) return op.fail("repeats[{}] is {}, but it must be from 0 to {}", i, repeats[i], 0xffffffff);
    shape.push_back(static_cast<std::int64_t>(size.unchecked()));
    walk.add(repeats[i], 0);
    walk.add(own, i < added ? 0 : strides[i - added]);
  }
  return move(op, self, out, shape, walk);
}

Status repeat_interleave(OpContext& op) {
  TRY_BIND((self, repeats, dim, output_size, out),
           op.args<Tensor, std::int64_t, std::optional<std::int64_t>, Ignored, Out>(
               {"self", "repeats", "dim", "output_size", "out"}));
  // Without a dimension, the elements are repeated one by one, as a vector.
  const Shape source = dim ? self.shape : Shape{self.numel()};
  TRY_ASSIGN(const auto d, op.dim(dim.value_or(0), source.rank(), "dim"));
  const auto strides = contiguous_strides(source);
  Shape shape = source.rank() == 0 ? Shape{1} : source;
  const auto size = Size::from_signed(repeats) * Size::from_signed(shape[d]);
  if (!size.fits_u32()) return op.fail("repeats is {}, but it must be from 0 to {}", repeats, 0xffffffff);
  Walk walk;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    walk.add(shape[i], strides[i]);
    if (i == d) walk.add(repeats, 0);
  }
  shape[d] = static_cast<std::int64_t>(size.unchecked());
  return move(op, self, out, shape, walk);
}

Status flip(OpContext& op) {
  TRY_BIND((self, dims, out), op.args<Tensor, Ints, Out>({"self", "dims", "out"}));
  std::array<bool, Shape::kMaxRank> turned{};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    TRY_ASSIGN(const auto d, op.dim(dims[i], self.rank(), "dims"));
    if (std::exchange(turned[d], true)) return op.fail("dims names dimension {} twice", d);
  }
  const auto strides = contiguous_strides(self.shape);
  Walk walk;
  for (std::size_t i = 0; i < self.rank(); ++i) {
    walk.add(self.shape[i], wrapping_product(strides[i], turned[i] ? -1 : 1));
    if (turned[i]) walk.first += wrapping_product(self.shape[i] - 1, strides[i]);
  }
  return move(op, self, out, self.shape, walk);
}

Status split_with_sizes(OpContext& op) {
  TRY_BIND((self, sizes, dim, outs), op.args<Tensor, Ints, std::int64_t, Outs>({"self", "split_sizes", "dim", "out"}));
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
    if (outs.has(i)) TRY(move_part(op, self, outs[i], d, start, sizes[i], 1));
    start += sizes[i];
  }
  if (start != self.shape[d]) {
    return op.fail("split_sizes add up to {}, but dimension {} has {} entries", start, d, self.shape[d]);
  }
  op.need_dispatches(static_cast<std::uint32_t>(sizes.size()));
  return {};
}

Status unfold(OpContext& op) {
  TRY_BIND((self, dimension, size, step, out), op.args<Tensor, std::int64_t, std::int64_t, std::int64_t, Out>(
                                                   {"self", "dimension", "size", "step", "out"}));
  TRY_ASSIGN(const auto d, op.dim(dimension, self.rank(), "dimension"));
  const std::int64_t length = self.rank() == 0 ? 1 : self.shape[d];
  if (step < 1) return op.fail("step is {}, but it must be at least 1", step);
  if (size < 0 || size > length) return op.fail("size is {}, but dimension {} has {} entries", size, d, length);
  const auto strides = contiguous_strides(self.shape);
  Shape shape = self.shape;
  Walk walk;
  for (std::size_t i = 0; i < self.rank(); ++i) {
    if (i == d) shape[i] = (length - size) / step + 1;
    walk.add(shape[i], wrapping_product(strides[i], i == d ? step : 1));
  }
  walk.add(size, self.rank() == 0 ? 0 : strides[d]);
  if (!shape.push_back(size)) return op.fail("self has {} dimensions, one too many", self.rank());
  return move(op, self, out, shape, walk);
}

Status pixel_shuffle(OpContext& op) {
  TRY_BIND((self, factor, out), op.args<Tensor, std::int64_t, Out>({"self", "upscale_factor", "out"}));
  const std::size_t rank = self.rank();
  if (rank < 3) return op.fail("self must have at least 3 dimensions, but its shape is {}", self.shape);
  const std::int64_t channels = self.shape[rank - 3];
  if (factor < 1 || factor > 0xffff || channels % (factor * factor) != 0) {
    return op.fail("upscale_factor is {}, whose square does not divide {} channels", factor, channels);
  }
  const auto strides = contiguous_strides(self.shape);
  Shape shape = self.shape;
  shape[rank - 3] = channels / (factor * factor);
  Walk walk;
  for (std::size_t i = 0; i + 3 < rank; ++i) walk.add(shape[i], strides[i]);
  walk.add(shape[rank - 3], wrapping_product(strides[rank - 3], factor * factor));
  // A channel's factor × factor neighbours lie between the rows and between the columns.
  walk.add(self.shape[rank - 2], strides[rank - 2]);
  walk.add(factor, wrapping_product(strides[rank - 3], factor));
  walk.add(self.shape[rank - 1], strides[rank - 1]);
  walk.add(factor, strides[rank - 3]);
  shape[rank - 2] = wrapping_product(shape[rank - 2], factor);
  shape[rank - 1] = wrapping_product(shape[rank - 1], factor);
  return move(op, self, out, shape, walk);
}

}  // namespace nibble::ops
