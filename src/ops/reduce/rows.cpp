#include "ops/reduce/rows.hpp"

#include <algorithm>
#include <bit>

namespace nibble::ops {
namespace {

constexpr std::uint32_t kQuads = 1;    // a line is a run of whole vec4s
constexpr std::uint32_t kSingles = 2;  // the result can be stored one by one: in float16 two lines may share a word
constexpr std::uint32_t kStates = 4;   // states are wanted afterwards

// A thread goes round twice for four elements, or once for four and then once for each.
constexpr When kByThread{.max_width = 2 * DeviceProfile::kMaxRounds, .traits = kQuads, .none_of = kStates};
constexpr When kByGroup{.max_width = 8 * DeviceProfile::kMaxRounds, .traits = kQuads, .none_of = kStates};
constexpr When kBySubgroups{.max_width = kByGroup.max_width, .traits = kQuads, .none_of = kStates, .subgroups = true};
constexpr When kByLine{.max_width = DeviceProfile::kMaxRounds * 4 / 5, .traits = kSingles, .none_of = kStates};
enum Form : std::uint8_t { cores, lanes, thread, vector, subgroups, group, line };

// What no row is best for is taken by the first that is right: cores, or lanes.
constexpr Variant kRowVariants[] = {
    Variant("cores", {Adapters::cpu}, {.max_rows = 3, .min_width = 8193}, kForCores, {},
            "several threads share a line, then all apply it: a long line is almost alone"),
    Variant("lanes", {}, {.adapters = Adapters::gpu, .max_rows = 63, .min_width = 16385}, kForLanes, {},
            "as cores, with threads for a GPU"),
    Variant("thread", kByThread, {.adapters = Adapters::cpu, .min_rows = 64, .max_width = 1024}, {}, &wgsl::rows_thread,
            "lines for all cores and vector lanes; in longer ones barriers do not show, and neighbouring loads do"),
    Variant("vector", kByGroup, {Adapters::cpu}, {}, &wgsl::rows_group,
            "barriers cost little between the threads that a CPU adapter runs as one vector"),
    Variant("subgroups", kBySubgroups, {Adapters::gpu}, {}, &wgsl::rows_group, "as group, with one barrier"),
    Variant("group", kByGroup, {Adapters::gpu}, {}, &wgsl::rows_group, "a workgroup takes a line"),
    Variant("line", kByLine, {.adapters = Adapters::cpu, .min_rows = 64}, {}, &wgsl::rows_line,
            "as thread, for lines that are no whole quads"),
};

std::uint32_t group_size(const Lowering& op, Form form, std::uint64_t widest) {
  const auto& profile = op.profile();
  const auto most =
      std::bit_floor(std::min({256U, profile.limits.max_workgroup_invocations, profile.limits.max_workgroup_size_x}));
  const auto quads = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(widest / 4, 32, 256));
  return std::min(form == vector ? profile.vector_lanes() : std::bit_ceil(quads), most);
}

Status add(Lowering& op, const Tensor& a, const Terms& terms) {
  const auto quads = quads_of(terms.sum.shape);
  return op.dispatch({.shader = wgsl::add_quads,
                      .bind = {op.read("a", a), op.read("b", terms.b), op.write("sum", terms.sum)},
                      .params = quads,
                      .threads = quads});
}

}  // namespace

const Choice kRows{"rows", kRowVariants};

Status rows(Lowering& op, const RowsOp& rows, const Tensor& self, Lines& lines, const Out& out) {
  const Tensor& source = rows.terms != nullptr ? rows.terms->sum : self;
  const auto& params = lines.params;
  // A weight is as long as a line.
  if (rows.weight && op.is_fixed(*rows.weight)) lines.width = {params.width};
  const auto& variant = op.choose(kRows, Facts{.rows = lines.count, .width = lines.width}
                                             .trait(kQuads, params.in_quads != 0, lines.width.least < lines.width.most)
                                             .trait(kSingles, out.dtype == DType::f32, false)
                                             .trait(kStates, rows.keeps_states, false));
  const auto form = static_cast<Form>(&variant - kRowVariants);
  const bool is_split = form == cores || form == lanes;
  const bool is_at_once = !is_split && form != line;

  if (rows.terms != nullptr && !is_at_once) TRY(add(op, self, *rows.terms));
  if (is_split) {
    TRY(fold(op, source, lines, rows.fold, variant));
    TRY(merge_parts(op, lines.params, rows.fold));
  }
  Kernel kernel{.shader = is_split ? wgsl::rows_apply : *variant.shader,
                .bind = {op.write("result", out).lanes(form == line ? 1 : 4)},
                .params = params,
                // Lines of no elements have no results.
                .threads = is_split            ? quads_of(out.shape)
                           : params.width == 0 ? 0
                                               : params.lines,
                .work = Size(params.lines) * params.width,
                .slots = rows.slots};
  kernel.slots.push_back({"fold", *rows.fold.shader});
  if (is_at_once && rows.terms != nullptr) {
    kernel.bind.push_back(op.read("a", self));
    kernel.bind.push_back(op.read("b", rows.terms->b));
    kernel.bind.push_back(op.write("sum", rows.terms->sum));
    kernel.slots.push_back({"load", wgsl::rows_of_sum});
  } else {
    kernel.bind.push_back(op.read("source", source));
    if (is_at_once) kernel.slots.push_back({"load", wgsl::rows_of_source});
  }
  if (rows.weight) kernel.bind.push_back(op.read("weight", *rows.weight));
  if (rows.bias) kernel.bind.push_back(op.read("bias", *rows.bias));
  if (is_split) add_states(kernel, rows.fold);
  if (variant.shader == &wgsl::rows_group) {
    kernel.slots.push_back({"join", form == subgroups ? wgsl::join_by_subgroups : wgsl::join_by_halves});
    kernel.workgroup = group_size(op, form, lines.width.most);
    kernel.whole_groups = true;
    kernel.threads *= kernel.workgroup;
  }
  return op.dispatch(kernel);
}

}  // namespace nibble::ops
