#include "ops/fold.hpp"

#include <algorithm>

#include "wgsl.hpp"

namespace nibble::ops {
namespace {

/// Appends a dimension, outermost first, to one of the two lists; merged with the one before where they are one run.
void append(Dims& sizes, Dims& strides, std::uint32_t& rank, std::uint32_t size, std::uint32_t stride) {
  if (size == 1) return;
  if (rank > 0 && strides[rank - 1] == size * stride) {
    sizes[rank - 1] *= size;
    strides[rank - 1] = stride;
    return;
  }
  sizes[rank] = size;
  strides[rank] = stride;
  ++rank;
}

// With 64K threads every GPU is full. A CPU adapter has a few cores, each of which runs several threads at once.
std::uint64_t wanted_threads(const OpContext& op) { return op.profile().kind == AdapterKind::cpu ? 128 : 65536; }

// A line shorter than this is not shared.
constexpr std::uint64_t kShortest = 256;

// One thread merges the parts of a line, so a line is cut into as many parts as each of them has elements, at most.
std::uint32_t choose_parts(const OpContext& op, std::uint64_t lines, std::uint64_t width) {
  if (lines == 0 || width < kShortest) return 1;
  std::uint64_t parts = 1;
  while (4 * parts * parts <= width) parts *= 2;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(wanted_threads(op) / lines, 1, parts));
}

}  // namespace

const Fold kMoments{
    .type = "alias T = f32;",
    .wgsl =
        "alias S = vec4<f32>;\n"
        "fn start() -> S { return S(); }\n"
        "fn lift(x: f32, i: u32) -> S { return S(1.0, x, 0.0, 0.0); }\n"
        "fn lift4(v: vec4<f32>, i: u32, step: u32) -> S {\n"
        "  let mean = 0.25 * (v.x + v.y + v.z + v.w);\n"
        "  let d = v - mean;\n"
        "  return S(4.0, mean, dot(d, d), 0.0);\n"
        "}\n"
        "fn merge(a: S, b: S) -> S {\n"
        "  let n = a.x + b.x;\n"
        "  let share = b.x / max(n, 1.0);\n"
        "  let d = b.y - a.y;\n"
        "  return S(n, a.y + d * share, a.z + b.z + d * d * a.x * share, 0.0);\n"
        "}\n",
    .lanes = 4,
};

FoldParams fold_params(const OpContext& op, const Tensor& self, const DimSet& is_folded) {
  FoldParams params;
  std::uint64_t lines = 1;
  std::uint64_t width = 1;
  auto stride = static_cast<std::uint64_t>(self.numel());
  for (std::size_t i = 0; i < self.rank(); ++i) {
    const auto size = static_cast<std::uint64_t>(self.shape[i]);
    stride = size == 0 ? 0 : stride / size;
    const auto narrow = static_cast<std::uint32_t>(size);
    if (is_folded[i]) {
      width *= size;
      append(params.folded_sizes, params.folded_strides, params.folded_rank, narrow,
             static_cast<std::uint32_t>(stride));
    } else {
      lines *= size;
      append(params.kept_sizes, params.kept_strides, params.kept_rank, narrow, static_cast<std::uint32_t>(stride));
    }
  }
  params.lines = static_cast<std::uint32_t>(lines);
  params.width = static_cast<std::uint32_t>(width);
  params.parts = choose_parts(op, lines, width);
  params.inner = params.folded_rank == 0 ? 1 : params.folded_strides[params.folded_rank - 1];
  params.in_quads = params.folded_rank <= 1 && params.inner == 1 && params.width % 4 == 0 ? 1 : 0;
  // Neighbouring lanes should read neighbouring addresses: along the lines, if those are the innermost dimension.
  params.neighbours = params.kept_rank > 0 && params.kept_strides[params.kept_rank - 1] == 1 ? 1 : 0;
  return params;
}

BufferArg states(const OpContext& op, const Fold& f) { return op.write_scratch("states", f.elem).lanes(f.lanes); }

std::string_view states_line(const Fold& f) {
  switch (f.lanes) {
    case 4:
      return "fn state_at(i: u32) -> S { return load4_states(i); }\nfn set_state(i: u32, s: S) { store4_states(i, s); "
             "}";
    case 2:
      return "fn state_at(i: u32) -> S { return load2_states(i); }\nfn set_state(i: u32, s: S) { store2_states(i, s); "
             "}";
    default:
      return "fn state_at(i: u32) -> S { return load_states(i); }\nfn set_state(i: u32, s: S) { store_states(i, s); }";
  }
}

void need_states(OpContext& op, const Tensor& self, const DimSet& is_folded, const Fold& f) {
  // Lines times parts is at most the number of lines, or of wanted threads, and no part is shorter than sixteen
  // elements where there are several.
  Size lines = 1;
  const auto& bound = op.bound(self);
  for (std::size_t i = 0; i < bound.rank(); ++i) {
    if (!is_folded[i]) lines = lines * Size::from_signed(bound[i]);
  }
  const std::uint64_t shared = std::min(wanted_threads(op), Size::of(bound).div_up(16).unchecked());
  op.need_scratch((lines.fits(shared) ? Size(shared) : lines) * (4 * std::uint64_t{f.lanes}));
}

Status fold(OpContext& op, const Tensor& self, const FoldParams& params, const DimSet& is_folded, const Fold& f) {
  need_states(op, self, is_folded, f);
  return op.dispatch({.shader = wgsl::fold,
                      .bind = {op.read("source", self), states(op, f)},
                      .params = params_of(params),
                      .threads = (Size(params.lines) * params.parts).unchecked(),
                      .lines = {wgsl::fold_params.body, f.type, f.wgsl, states_line(f)}});
}

Status merge_parts(OpContext& op, FoldParams& params, const Fold& f) {
  params.merged = 1;
  if (params.parts == 1) return {};
  return op.dispatch({.shader = wgsl::fold_merge,
                      .bind = {states(op, f)},
                      .params = params_of(params),
                      .threads = params.lines,
                      .lines = {wgsl::fold_params.body, f.type, f.wgsl, states_line(f)}});
}

Status prepare_merge(OpContext& op, const FoldParams& params, const Fold& f) {
  // Lines are cut where they are few: a small dispatch.
  return op.prepare({.shader = wgsl::fold_merge,
                     .bind = {states(op, f)},
                     .params = params_of(params),
                     .threads = 1,
                     .lines = {wgsl::fold_params.body, f.type, f.wgsl, states_line(f)}});
}

Status finish_lines(OpContext& op, const FoldParams& params, const Fold& f, const Out& out, std::string_view finish) {
  return op.dispatch({.shader = wgsl::fold_finish,
                      .bind = {states(op, f), op.write("result", out)},
                      .params = params_of(params),
                      .threads = Size(params.lines).div_up(4).unchecked(),
                      .lines = {wgsl::fold_params.body, f.type, f.wgsl, states_line(f), finish}});
}

}  // namespace nibble::ops
