#include "ops/rows.hpp"

#include <algorithm>
#include <bit>

#include "wgsl.hpp"

namespace nibble::ops {
namespace {

constexpr std::string_view kLoad =
    "fn first4(i: u32) -> vec4<f32> { return load4_source(i); }\n"
    "fn again4(i: u32) -> vec4<f32> { return load4_source(i); }\n";

// On a GPU about four elements per thread, in at most 256 threads. A CPU adapter pays for each barrier by switching
// between the threads of a workgroup, but those that run as one vector, four or eight, cost little.
std::uint32_t group_size(const OpContext& op, std::int64_t widest) {
  const auto& limits = op.profile().limits;
  const auto most = std::bit_floor(std::min({256U, limits.max_workgroup_invocations, limits.max_workgroup_size_x}));
  if (op.profile().kind == AdapterKind::cpu) return std::min(op.profile().vector_lanes(), most);
  const auto quads = static_cast<std::uint64_t>(std::clamp<std::int64_t>(widest / 4, 32, 256));
  return std::min(static_cast<std::uint32_t>(std::bit_ceil(quads)), most);
}

// With so many lines a CPU adapter has work for all its cores and vector lanes without sharing any.
constexpr std::uint32_t kLinesForAll = 64;
// In longer ones the barriers of a group do not show, and its neighbouring loads do.
constexpr std::uint32_t kNarrow = 1024;

Bindings bindings(OpContext& op, const Tensor& self, const Affine& affine, const BufferArg& result) {
  Bindings bind{op.read("source", self), result};
  if (affine.weight) bind.add(op.read("weight", *affine.weight));
  if (affine.bias) bind.add(op.read("bias", *affine.bias));
  return bind;
}

// The longest line that a workgroup always takes: a longer one needs to have company.
std::uint32_t longest_alone(const OpContext& op) { return op.profile().kind == AdapterKind::cpu ? 8192 : 16384; }

}  // namespace

bool suits_groups(const OpContext& op, const FoldParams& params) {
  const auto company = op.profile().kind == AdapterKind::cpu ? 4U : 64U;
  return params.in_quads != 0 && (params.width <= longest_alone(op) || params.lines >= company);
}

Status rows_in_groups(OpContext& op, const Bindings& bind, std::int64_t widest, const FoldParams& params,
                      const RowsOp& rows, std::string_view load, bool only_prepares) {
  const auto emit = only_prepares ? &OpContext::prepare : &OpContext::dispatch;
  if (op.profile().kind == AdapterKind::cpu && params.lines >= kLinesForAll && params.width <= kNarrow) {
    return (op.*emit)({.shader = wgsl::rows_thread,
                       .bind = bind,
                       .params = params_of(params),
                       .threads = params.lines,
                       .lines = {wgsl::fold_params.body, rows.fold.wgsl, rows.apply, rows.more, load}});
  }
  const auto threads = group_size(op, widest);
  return (op.*emit)({.shader = wgsl::rows_group,
                     .bind = bind,
                     .params = params_of(params),
                     .threads = std::uint64_t{params.lines} * threads,
                     .workgroup = threads,
                     .whole_groups = true,
                     .lines = {wgsl::fold_params.body, rows.fold.wgsl, rows.apply, rows.more, load}});
}

Status rows(OpContext& op, const Tensor& self, const Affine& affine, const DimSet& is_folded, FoldParams& params,
            const Out& out, const RowsOp& rows, bool keep_states) {
  op.need_dispatches(keep_states ? 5 : 3);
  auto bind = bindings(op, self, affine, op.write("result", out));
  std::int64_t widest = 1;
  for (std::size_t i = 0; i < self.rank(); ++i) widest *= is_folded[i] ? op.bound(self)[i] : 1;
  const bool in_groups = !keep_states && suits_groups(op, params);
  // A call may go another way than the largest one, unless a weight says how long all lines are.
  const bool always_in_groups = in_groups && affine.weight && params.width <= longest_alone(op);
  const bool never_in_groups = keep_states || (affine.weight && params.in_quads == 0);
  if (!always_in_groups) need_states(op, self, is_folded, rows.fold);
  if (!always_in_groups && !never_in_groups) {
    TRY(in_groups ? prepare_merge(op, params, rows.fold) : rows_in_groups(op, bind, widest, params, rows, kLoad, true));
  }
  if (in_groups) return rows_in_groups(op, bind, widest, params, rows, kLoad);
  // On a CPU adapter a thread makes a whole line, if there are enough of them: not so in float16, where two lines may
  // share a word.
  if (op.profile().kind == AdapterKind::cpu && !keep_states && out.dtype == DType::f32 &&
      params.lines >= kLinesForAll && params.folded_rank <= 1) {
    return op.dispatch({.shader = wgsl::rows_line,
                        .bind = bindings(op, self, affine, op.write("result", out).lanes(1)),
                        .params = params_of(params),
                        .threads = params.lines,
                        .lines = {wgsl::fold_params.body, rows.fold.wgsl, rows.apply, rows.more}});
  }
  TRY(fold(op, self, params, is_folded, rows.fold));
  TRY(merge_parts(op, params, rows.fold));
  return op.dispatch(
      {.shader = wgsl::rows_apply,
       .bind = bind.add(states(op, rows.fold)),
       .params = params_of(params),
       .threads = Size::of(out.shape).div_up(4).unchecked(),
       .lines = {wgsl::fold_params.body, rows.fold.wgsl, states_line(rows.fold), rows.apply, rows.more}});
}

}  // namespace nibble::ops
