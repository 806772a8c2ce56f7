// The scale and the zero point that fit a block's values into a range of integers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ops/families.hpp"
#include "ops/quantized/affine.hpp"
#include "ops/reduce/fold.hpp"

namespace nibble::ops {
namespace {

constexpr std::uint32_t kRuns = 1;  // every block is one run of elements
constexpr When kQparamsByGroup{.max_width = 64 * DeviceProfile::kMaxRounds, .traits = kRuns};
constexpr When kQparamsBySubgroups{.max_width = kQparamsByGroup.max_width, .traits = kRuns, .subgroups = true};

// A workgroup makes four rows, because the results of four are stored as one; a quarter of its threads folds each.
// What no row is best for is taken by the first that is right: cores, or lanes.
constexpr Variant kQparamsVariants[] = {
    Variant("cores", {Adapters::cpu}, {.max_rows = 3, .min_width = 16385}, kForCores, {},
            "several threads share a block of any form"),
    Variant("lanes", {}, {.adapters = Adapters::gpu, .max_rows = 63, .min_width = 32769}, kForLanes, {},
            "as cores, with threads for a GPU"),
    Variant("vector", {.max_width = 8 * DeviceProfile::kMaxRounds, .traits = kRuns}, {Adapters::cpu}, {4, 1, 32}, {},
            "a CPU adapter runs the threads of a quarter as one vector"),
    Variant("subgroups", kQparamsBySubgroups, {Adapters::gpu}, {4, 1, 256}, {}, "as group, with one barrier"),
    Variant("group", kQparamsByGroup, {Adapters::gpu}, {4, 1, 256}, {},
            "neighbouring lanes read neighbouring elements"),
};
constexpr Choice kQparams{"choose_qparams", kQparamsVariants};

/// How extremes become a scale and a zero point.
struct Rule {
  const Shader& shader;
  double low = -128;
  double high = 127;
  double eps = 0;
};

/// What is folded: at most as many blocks, and as large ones, as the input's bounds allow.
Lines lines_of_blocks(const Lowering& op, const Tensor& input, const Blocks& blocks) {
  Tensor seen = input;
  seen.shape = blocks.view;
  DimSet is_folded{};
  for (std::size_t i = 0; i < blocks.view.rank(); ++i) is_folded[i] = blocks.groups[i] == 1;
  Lines lines = lines_of(op, seen, is_folded);
  lines.count = op.extent(lines.params.lines, Size::of(blocks.most_counts).unchecked(), {&input});
  lines.width = op.extent(lines.params.width, Size::of(blocks.most_sizes).unchecked(), {&input});
  lines.folded = input.rank();
  return lines;
}

Status choose(Lowering& op, const Tensor& input, const Blocks& blocks, const Shape& shape, const Rule& rule,
              const Outs& outs) {
  if (outs.size() != 2) return op.fail("out must hold two tensors, but it holds {}", outs.size());
  if (!(rule.low < rule.high)) {
    return op.fail("quant_min is {}, which is not below quant_max, {}", rule.low, rule.high);
  }
  wgsl::AffineParams bounds{.low = static_cast<float>(rule.low), .high = static_cast<float>(rule.high)};
  Bindings results;
  for (const std::size_t i : {0U, 1U}) {
    if (!outs.has(i)) continue;
    Out out = outs[i];
    if (i == 1) TRY(set_bounds(op, Number{rule.low}, Number{rule.high}, out.dtype, bounds));
    if (i == 0 && !is_float(out.dtype)) return op.fail("the scale must be float32 or float16, but it is {}", out.dtype);
    TRY(op.set_shape(out, shape));
    results.push_back(op.write(i == 0 ? "scale" : "zero_point", out));
  }
  const Shader& keep = !outs.has(1) ? wgsl::keep_scale : outs.has(0) ? wgsl::keep_both : wgsl::keep_zero;

  auto lines = lines_of_blocks(op, input, blocks);
  wgsl::QparamsParams params{.rows = lines.params.lines,
                             .width = lines.params.width,
                             .parts = 1,
                             .quant_min = bounds.low,
                             .quant_max = bounds.high,
                             .eps = static_cast<float>(rule.eps),
                             // As Python rounds it: towards zero.
                             .zero = static_cast<float>(std::trunc((rule.low + rule.high + 1) / 2))};
  if (params.width == 0 && params.rows > 0) return op.fail("input has shape {}: no elements to fit", input.shape);
  // Blocks of the last dimension are runs in every call.
  bool may_vary = false;
  for (std::size_t i = 0; i + 1 < blocks.most_sizes.rank(); ++i) may_vary = may_vary || blocks.most_sizes[i] != 1;
  const auto& variant = op.choose(kQparams, Facts{.rows = lines.count, .width = lines.width}.trait(
                                                kRuns, blocks.is_runs, may_vary && op.varies({&input})));
  Kernel kernel{.shader = wgsl::choose_qparams,
                .bind = results,
                .threads = Size(params.rows).div_up(4).unchecked(),
                .work = Size(params.rows) * params.width,
                .slots = {{"qparams", rule.shader}, {"keep", keep}, {"fold", wgsl::fold_extremes}}};
  if (variant.tile.threads == 1) {
    const Fold extremes{.shader = &wgsl::fold_extremes, .lanes = 4};
    TRY(fold(op, input, lines, extremes, variant));
    params.parts = lines.params.parts;
    kernel.shader = wgsl::fold_qparams;
    add_states(kernel, extremes);
  } else {
    kernel.bind.push_back(op.read("source", input));
    kernel.workgroup = variant.tile.threads;
    kernel.whole_groups = true;
    kernel.threads *= kernel.workgroup;
    kernel.slots.push_back({"join", variant.right.subgroups ? wgsl::join_by_subgroups : wgsl::join_by_halves});
  }
  kernel.params = params;
  return op.dispatch(kernel);
}

Status choose_affine(Lowering& op, const Float<Tensor>& input, std::string_view mapping, const LiveInts& block_size,
                     Ignored, const std::optional<Number>& low, const std::optional<Number>& high,
                     const std::optional<Number>& eps, Ignored, Ignored, bool keepdim, const Outs& outs) {
  const Shader* shader = mapping == "ASYMMETRIC"                  ? &wgsl::qparams_asymmetric
                         : mapping == "SYMMETRIC"                 ? &wgsl::qparams_symmetric
                         : mapping == "SYMMETRIC_NO_CLIPPING_ERR" ? &wgsl::qparams_symmetric_whole
                                                                  : nullptr;
  if (shader == nullptr) {
    return op.fail("mapping_type is {}, but it must be ASYMMETRIC, SYMMETRIC or SYMMETRIC_NO_CLIPPING_ERR", mapping);
  }
  TRY_ASSIGN(const auto blocks, blocks_of(op, input, block_size));
  Shape shape;
  for (std::size_t i = 0; i < input.rank(); ++i) {
    if (keepdim || block_size[i] == 1 || block_size[i] != input.shape[i]) shape.push_back(blocks.counts[i]);
  }
  const double smallest = input.dtype == DType::f16 ? 6.103515625e-5 : std::numeric_limits<float>::min();
  const Rule rule{*shader, low ? low->value : -128, high ? high->value : 127, eps ? eps->value : smallest};
  return choose(op, input, blocks, shape, rule, outs);
}

Status choose_of_all(Lowering& op, const Float<Tensor>& input, const Number& low, const Number& high, const Number& eps,
                     Ignored, const Outs& outs) {
  const Blocks all{.view = {input.numel()},
                   .groups = {1},
                   .counts = {},
                   .most_counts = {1},
                   .most_sizes = {op.bound(input).numel()}};
  return choose(op, input, all, {1}, {wgsl::qparams_asymmetric, low.value, high.value, eps.value}, outs);
}

Status choose_by_token(Lowering& op, const Float<Tensor>& input, Ignored, const Outs& outs) {
  if (input.rank() == 0) return op.fail("input is a scalar, which has no tokens");
  Shape shape = input.shape;
  const auto width = std::exchange(shape[shape.rank() - 1], 1);
  const auto& most = op.bound(input);
  const Blocks tokens{.view = {shape.numel(), width},
                      .groups = {shape.numel(), 1},
                      .counts = {},
                      .most_counts = {most[most.rank() - 1] == 0 ? 0 : most.numel() / most[most.rank() - 1]},
                      .most_sizes = {most[most.rank() - 1]}};
  const Rule rule{.shader = wgsl::qparams_of_token, .eps = std::numeric_limits<float>::epsilon()};
  return choose(op, input, tokens, shape, rule, outs);
}

constexpr Op kChooseQparamsOps[] = {
    op<choose_affine>("torchao.choose_qparams_affine.default",
                      "input, mapping_type, block_size, target_dtype, quant_min, quant_max, eps, scale_dtype, "
                      "zero_point_dtype, keepdim -> out",
                      "all mapping types; blocks of any form"),
    op<choose_of_all>("quantized_decomposed.choose_qparams.tensor", "input, quant_min, quant_max, eps, dtype -> out"),
    op<choose_by_token>("quantized_decomposed.choose_qparams_per_token_asymmetric.default", "input, dtype -> out"),
};

}  // namespace

const Family kChooseQparams{"choose_qparams", kChooseQparamsOps, {&kQparams}};

}  // namespace nibble::ops
