// Rotary embedding in its three forms, and fused with the write of keys and values to their caches.
#include <limits>

#include "ops/attention/cache.hpp"
#include "ops/families.hpp"
#include "wgsl.hpp"

namespace nibble::ops {
namespace {

/// Kernels are planned for the size of the program's heads and tables.
Status check_last_dim(const Lowering& op, const Tensor& t) {
  const auto& bound = op.bound(t);
  if (t.rank() == 0 || t.shape[t.rank() - 1] == bound[t.rank() - 1]) return {};
  return op.fail("{} has shape {}, but the program is made for a last dimension of {}", t.arg, t.shape,
                 bound[t.rank() - 1]);
}

/// How heads of `size` elements turn by tables whose row is `first_row` for the first position.
struct Rotation {
  std::int64_t size = 0;
  std::int64_t width = 0;  ///< elements of a head that turn: the first ones
  std::int64_t positions = 0;
  std::int64_t first_row = 0;
  bool halves = false;

  /// Whole vec4s turn together.
  bool by_quads() const { return size % 4 == 0 && width % (halves ? 8 : 4) == 0; }

  wgsl::RotaryParams params() const {
    return {.quads = {0, 0, 0, narrow(size)},
            .first = {0, 0, 0, narrow(width)},
            .heads = {0, 0, 0, narrow(positions)},
            .skip = {0, 0, 0, narrow(first_row)},
            .counts = {0, 0, 0, std::numeric_limits<std::uint32_t>::max()}};
  }
};

/// Target `which` takes `count` elements from element `begin` of its buffer on.
void add_target(wgsl::RotaryParams& p, std::size_t which, std::uint64_t begin, std::uint64_t count,
                std::int64_t heads) {
  p.first[which] = narrow(begin / 4);
  p.skip[which] = narrow(begin % 4);
  p.counts[which] = narrow(count);
  p.quads[which] = narrow(count == 0 ? 0 : (begin % 4 + count + 3) / 4);
  p.heads[which] = narrow(heads);
}

std::uint64_t threads_of(const wgsl::RotaryParams& p) { return std::uint64_t{p.quads[0]} + p.quads[1] + p.quads[2]; }

Kernel kernel(const Rotation& r, const wgsl::RotaryParams& params, const Bindings& bind, const Shader& sources,
              const Shader& targets, const Shader& tables) {
  return {.shader = wgsl::rotary,
          .bind = bind,
          .params = params,
          .threads = threads_of(params),
          .overrides = {{"HALVES", flag(r.halves)}, {"QUADS", flag(r.by_quads())}},
          .slots = {{"sources", sources}, {"targets", targets}, {"tables", tables}}};
}

/// Each part of the tables turns the positions whose rows it has.
Status rotate(Lowering& op, const Rotation& r, wgsl::RotaryParams params, const Bindings& operands,
              const Table& cosines, const Table& sines, const Shader& sources, const Shader& targets) {
  const std::int64_t entries = cosines.shape[0];
  const std::int64_t columns = cosines.shape[cosines.rank() - 1];
  const std::int64_t entry_rows = entries * columns == 0 ? 1 : cosines.numel() / columns / entries;
  return op.for_each_row_range(entries, {&cosines, &sines}, [&](const RowRange& range) -> Status {
    const auto& shard = range.shards[0];
    if (shard.row_begin != range.shards[1].row_begin) {
      return op.fail("{} and {} are too large for one buffer and of different types", cosines.arg, sines.arg);
    }
    // Rows before the part wrap round, and so are past its end.
    params.skip[3] = narrow(r.first_row - shard.row_begin * entry_rows);
    if (op.is_sharded(cosines)) params.counts[3] = narrow((range.end - range.begin) * entry_rows);
    Bindings bind = operands;
    bind.push_back(op.read("cosines", cosines, shard));
    bind.push_back(op.read("sines", sines, range.shards[1]));
    return op.dispatch(kernel(r, params, bind, sources, targets, wgsl::two_tables));
  });
}

/// Checks the tables and says how `x` [batch, positions, heads, size] turns by them.
Result<Rotation> rotation_of(const Lowering& op, const Tensor& x, const Tensor& cosines, const Tensor& sines,
                             std::int64_t start, std::string_view start_arg, bool halves) {
  if (x.rank() != 4) return op.fail("{} must have 4 dimensions, but its shape is {}", x.arg, x.shape);
  if (cosines.rank() == 0 || !(cosines.shape == sines.shape)) {
    return op.fail("{} has shape {} and {} has {}, but they must be tables of one shape", cosines.arg, cosines.shape,
                   sines.arg, sines.shape);
  }
  TRY(check_last_dim(op, x));
  TRY(check_last_dim(op, cosines));
  Rotation r{.size = x.shape[3], .positions = x.shape[1], .first_row = start, .halves = halves};
  const std::int64_t columns = cosines.shape[cosines.rank() - 1];
  r.width = halves ? columns : 2 * columns;
  // Neighbouring pairs turn whole heads; the halves may be those of a first part.
  if (r.width % 2 != 0 || (halves ? r.width > r.size : r.width != r.size)) {
    return op.fail("{} has {} columns, which do not fit heads of {} elements", cosines.arg, columns, r.size);
  }
  const std::int64_t rows = columns == 0 ? 0 : cosines.numel() / columns;
  if (start < 0) return fail_range(op, "{} is {}, but it must not be negative", start_arg, start);
  if (columns > 0 && (start > rows || r.positions > rows - start)) {
    return fail_range(op, "{} {} + {} positions reach past the {} rows of {}", start_arg, start, r.positions, rows,
                      cosines.arg);
  }
  return r;
}

Status rotate_pair(Lowering& op, const Tensor& xq, const Tensor& xk, const Table& cosines, const Table& sines,
                   std::int64_t start, const Outs& outs, bool halves) {
  if (outs.size() != 2) return op.fail("has {} outputs, but it must have 2", outs.size());
  TRY_ASSIGN(const auto r, rotation_of(op, xq, cosines, sines, start, "start_pos", halves));
  if (xk.rank() != 4 || xk.shape[0] != xq.shape[0] || xk.shape[1] != xq.shape[1] || xk.shape[3] != xq.shape[3]) {
    return op.fail("xq has shape {}, but xk has {}", xq.shape, xk.shape);
  }
  TRY(op.set_shapes(outs, {xq.shape, xk.shape}));
  auto params = r.params();
  Bindings bind{};
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    if (!outs.has(i)) continue;
    const Tensor& x = i == 0 ? xq : xk;
    add_target(params, count, 0, Size::of(x.shape).unchecked(), x.shape[2]);
    bind.push_back(op.read(count == 0 ? "x" : "y", x));
    bind.push_back(op.write(count == 0 ? "x_out" : "y_out", outs[i]));
    ++count;
  }
  return rotate(op, r, params, bind, cosines, sines, count == 2 ? wgsl::two_sources : wgsl::one_source,
                count == 2 ? wgsl::two_targets : wgsl::one_target);
}

/// Without a start, the tables begin with the first position.
template <bool halves, class... Start>
Status apply_rotary_emb(Lowering& op, const Float<Tensor>& xq, const Float<Tensor>& xk, const Float<Table>& cosines,
                        const Float<Table>& sines, Start... start, const Float<Outs>& outs) {
  return rotate_pair(op, xq, xk, cosines, sines, (std::int64_t{0} + ... + start), outs, halves);
}

Status apply_rotary_emb_interleaved(Lowering& op, const Float<Tensor>& x, const Float<Tensor>& frequencies,
                                    Float<Out>& out) {
  if (x.rank() != 3) return op.fail("x must have 3 dimensions, but its shape is {}", x.shape);
  if (x.shape[2] % 2 != 0) return op.fail("x has {} channels, but they must be pairs", x.shape[2]);
  if (frequencies.numel() != x.shape[1] * x.shape[2]) {
    return op.fail("freqs_cis has shape {}, but {} positions of {} channels need {} elements", frequencies.shape,
                   x.shape[1], x.shape[2], x.shape[1] * x.shape[2]);
  }
  TRY(check_last_dim(op, x));
  TRY(op.set_shape(out, x.shape));
  const Rotation r{.size = x.shape[2], .width = x.shape[2], .positions = x.shape[1]};
  auto params = r.params();
  add_target(params, 0, 0, Size::of(x.shape).unchecked(), 1);
  return op.dispatch(kernel(r, params, {op.read("x", x), op.read("frequencies", frequencies), op.write("x_out", out)},
                            wgsl::one_source, wgsl::one_target, wgsl::one_table));
}

Status rope_update_cache(Lowering& op, const Float<Tensor>& xq, const Float<Tensor>& xk, const Float<Tensor>& value,
                         const Float<Table>& cosines, const Float<Table>& sines, const Float<State>& key_cache,
                         const Float<State>& value_cache, LiveInt start, LiveInt table_start, bool halves,
                         Float<Out>& out) {
  // First: of a position past the end, the tables show only that their slice came out short.
  TRY(check_cache_write(op, xk, key_cache, start));
  TRY(check_cache_write(op, value, value_cache, start));
  TRY_ASSIGN(const auto r, rotation_of(op, xq, cosines, sines, table_start, "rope_start", halves));
  if (xq.shape[0] != 1 || xk.rank() != 4 || !(xk.shape == Shape{1, r.positions, xk.shape[2], r.size}) ||
      !(value.shape == xk.shape)) {
    return op.fail("xq has shape {}, xk {} and value {}, but they must agree and have a batch of 1", xq.shape, xk.shape,
                   value.shape);
  }
  TRY(op.set_shape(out, xq.shape));
  auto params = r.params();
  const std::uint64_t row = Size::from_signed(xk.shape[2] * r.size).unchecked();
  const std::uint64_t begin = row * static_cast<std::uint64_t>(start);
  const std::uint64_t count = row * static_cast<std::uint64_t>(r.positions);
  add_target(params, 0, 0, Size::of(xq.shape).unchecked(), xq.shape[2]);
  add_target(params, 1, begin, count, xk.shape[2]);
  add_target(params, 2, begin, count, xk.shape[2]);
  return rotate(op, r, params,
                {op.read("x", xq), op.read("y", xk), op.read("z", value), op.write("x_out", out),
                 op.update("key_cache", key_cache), op.update("value_cache", value_cache)},
                cosines, sines, wgsl::three_sources, wgsl::cache_targets);
}

constexpr Op kRotaryOps[] = {
    op<apply_rotary_emb<false>>("et_vk.apply_rotary_emb.default", "xq, xk, freqs_cos, freqs_sin -> out",
                                "adjacent pairs; any even head size; tables of any size"),
    op<apply_rotary_emb<true, LiveInt>>("et_vk.apply_rotary_emb_hf.default",
                                        "xq, xk, freqs_cos, freqs_sin, start_pos -> out",
                                        "halves, of whole heads or of their first part; tables of any size"),
    op<apply_rotary_emb_interleaved>("et_vk.apply_rotary_emb_interleaved.default", "x, freqs_cis -> out",
                                     "frequencies of any rank"),
    op<rope_update_cache>("nibble.rope_update_cache",
                          "xq, xk, value, freqs_cos, freqs_sin, key_cache, value_cache, start_pos, rope_start, "
                          "is_halves -> out",
                          "made by a pass: rotary embedding with the write to both caches"),
};

}  // namespace

const Family kRotary{"rotary", kRotaryOps};

}  // namespace nibble::ops
