// Elementwise ops that follow each other, in one kernel.
#include <algorithm>

#include "ops/elementwise/broadcast.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "wgsl.hpp"

namespace nibble::ops {

Status join(Lowering& op, std::initializer_list<const Tensor*> operands, const Out& out, const Step& step) {
  if (Chain* chain = op.chain()) {
    chain->add(operands, out, step);
    return {};
  }
  Tensor nothing;
  nothing.id = Storage::kNone;
  Chain chain(nothing);
  chain.add(operands, out, step);
  TRY(op.add_tail(chain));
  const Out last = op.last_out();
  const auto read = chain.operands();
  std::array<Shape, kMostOperands> shapes;
  std::array<const Tensor*, kMostOperands> pointers{};
  std::ranges::transform(read, shapes.begin(), &Tensor::shape);
  std::ranges::transform(read, pointers.begin(), [](const Tensor& t) { return &t; });
  Dims sizes{};
  std::array<Dims, kMostOperands> strides{};
  wgsl::ChainParams params{.quads = quads_of(last.shape)};
  params.rank = collapse_broadcast(last.shape, std::span(shapes).first(read.size()), sizes, strides);
  const bool in_quads = params.rank > 0 && sizes[params.rank - 1] % 4 == 0;
  const auto reading = choose_reading(op, std::span(pointers).first(read.size()), last, in_quads);
  std::ranges::copy(std::span(sizes).first(4), params.sizes.begin());
  std::string takes;
  Kernel kernel{.shader = wgsl::chain, .bind = {op.write("result", out)}, .threads = params.quads};
  for (std::size_t i = 0; i < read.size(); ++i) {
    std::ranges::copy(std::span(strides[i]).first(4), params.strides.begin() + 4 * i);
    kernel.bind.push_back(op.read(Chain::name_of(i), read[i]));
    const bool is_one = op.bound(read[i]).numel() == 1;
    Chain::write_take(takes, i,
                      is_one || reading == Reading::same ? Chain::plain_take(is_one, 4)
                      : reading == Reading::quads        ? wgsl::take_run
                                                         : wgsl::take_places);
  }
  auto* numbers = params.tail.begin();
  for (const auto& one : chain.numbers()) numbers = std::ranges::copy(one, numbers).out;
  const auto text = chain.text(takes, 4);
  kernel.params = params;
  kernel.tail = {text, chain.functions()};
  return op.dispatch(kernel);
}

}  // namespace nibble::ops
