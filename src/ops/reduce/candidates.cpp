// The K largest of a row lie in the K groups of four with the largest peaks. So peaks of peaks are made until there are
// few; the K largest of those are found by counting, then of the fours below them, down to the elements. No barriers.
#include "ops/families.hpp"
#include "ops/reduce/fold.hpp"

namespace nibble::ops {
namespace {

constexpr Variant kPeaks[] = {
    Variant("shared", {.subgroups = true}, {Adapters::gpu}, {1, 4}, &wgsl::candidates_by_four,
            "four lanes take sixteen quads, and read those that lie together"),
    Variant("thread", {}, {}, {}, &wgsl::candidates, "a thread takes sixteen quads"),
};
constexpr Choice kPeaksChoice{"candidates", kPeaks};

Status top_candidates(Lowering& op, const Float<Tensor>& self, std::int64_t count, const Outs& outs) {
  if (self.rank() == 0) return op.fail("self is a scalar, which has no rows");
  if (count < 1 || count > 1024) return op.fail("count is {}, but it must be from 1 to 1024", count);
  if (outs.size() != 3) return op.fail("out must hold three tensors, but it holds {}", outs.size());
  const auto width = self.shape[self.rank() - 1];
  const auto found = self.numel() == 0 ? 0 : std::min(count, width);
  const auto row = narrow(found == 0 ? 0 : self.numel() - width);
  wgsl::CandidateParams p{.base = row / 4, .shift = row % 4, .width = narrow(width), .step = 1};
  p.groups = narrow(found == 0 ? 0 : (row % 4 + width + 3) / 4);
  Bindings results;
  for (std::size_t i = 0; i < outs.size(); ++i) {
    if (!outs.has(i) || outs[i].dtype != (i == 1 ? DType::i32 : DType::f32)) return op.fail("out has the wrong types");
    Out out = outs[i];
    TRY(op.set_shape(out, {i == 2 ? std::min<std::int64_t>(found, 1) : found}));
    results.push_back(op.write(i == 0 ? "values" : i == 1 ? "ids" : "total", out).lanes(1));
  }
  const auto dispatch = [&](const Shader& shader, std::uint64_t threads, const Shader& part) {
    Kernel kernel{.shader = shader, .bind = {Scratch::write("levels", Elem::i32)}, .params = p, .threads = threads};
    kernel.work = Size(threads) * (&shader == &wgsl::candidates_rank ? p.groups : 16);
    kernel.slots = {{"part", part}, {"fold", wgsl::fold_exponentials}};
    if (&part == &wgsl::take_logits || &part == &wgsl::keep_logits) kernel.bind.push_back(op.read("source", self));
    for (std::size_t i = 0; i < results.size() && &part == &wgsl::keep_candidates; ++i)
      kernel.bind.push_back(results[i]);
    return op.dispatch(kernel);
  };
  const auto& peaks =
      op.choose(kPeaksChoice, {.width = op.extent(narrow(width), narrow(op.bound(self)[self.rank() - 1]), {&self})});
  // Places are counted in vec4s. Those of the levels depend only on the largest width, and take at most half of its.
  p.stride = narrow(op.bound(self)[self.rank() - 1] / 4 + 2);
  TRY(op.scratch((Size(p.stride).div_up(2) + 64 + 4 * static_cast<std::uint64_t>(count)) * 16));
  InlineVector<std::uint32_t, 16> levels;
  for (; levels.empty() || p.stride > 272; p.to += 6 * p.stride) {
    p.stride = (p.stride + 15) / 16;
    p.count = (p.groups + 15) / 16;
    TRY(dispatch(*peaks.shader, std::uint64_t{p.count} * peaks.tile.columns,
                 levels.empty() ? wgsl::take_logits : wgsl::take_peaks));
    levels.push_back(p.to);
    levels.push_back(p.to + 4 * p.stride);
    p.base = p.to + 4 * p.stride;
    p.states = p.base + p.stride;
    p.groups = p.parts = p.count;
  }
  const std::uint32_t places[] = {p.to, p.to + 2 * narrow(count)};
  for (auto level = levels.size() + 1; level-- > 0; p.step = 2, p.base = p.to, p.groups = p.count) {
    p.to = places[level % 2];
    p.count = level == 0 ? narrow(found) : std::min(narrow(count), 4 * p.groups);
    p.children = level > 1 ? levels[level - 2] : row / 4;
    const auto& part = level == 0 ? wgsl::keep_candidates : level == 1 ? wgsl::keep_logits : wgsl::keep_groups;
    TRY(dispatch(wgsl::candidates_rank, 4 * std::uint64_t{p.groups}, part));
  }
  return {};
}

constexpr Op kCandidatesOps[] = {
    op<top_candidates>("nibble.top_candidates", "self, count -> out", "made for the option candidates")};

}  // namespace

const Family kCandidates{"candidates", kCandidatesOps, {&kPeaksChoice}};

}  // namespace nibble::ops
