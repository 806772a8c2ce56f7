// The option f16_products: tiles that multiply in half precision.
#include "linear_fixture.hpp"

namespace nibble::test {
namespace {

class HalfProductTest : public LinearTest {
 protected:
  bool has_f16() { return Internals::of(device)->gpu->profile().shader_f16; }
};
INSTANTIATE_TEST_SUITE_P(Kinds, HalfProductTest, testing::Values(AdapterKind::discrete),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

/// The largest difference, as a part of the usual result.
double error_of(const Floats& got, const Floats& wanted) {
  double largest = 0;
  double squares = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(got[i] - wanted[i])));
    squares += static_cast<double>(wanted[i]) * wanted[i];
  }
  return largest / std::sqrt(squares / static_cast<double>(wanted.size()));
}

TEST_P(HalfProductTest, results_differ_by_a_few_thousandths_at_any_depth) {
  int turn = -1;
  for (const auto& [rows, depth, columns, group] :
       {Shape4{37, 96, 68, 32}, {70, 2047, 36, 23}, {33, 40, 70, 8}, {64, 2048, 64, 32}}) {
    ++turn;
    Program p;
    const Q4 w(p, depth, columns, group, columns);
    const Floats x = p.floats(static_cast<std::size_t>(rows * depth));
    const auto in = p.input(p.tensor(DType::f32, {rows, depth}));
    const auto out = p.tensor(DType::f32, {rows, columns});
    const auto weight = p.filled(DType::u8, {columns, (depth + 1) / 2}, w.packed);
    const auto scales = p.filled(DType::f32, {depth / group, columns}, w.scales);
    p.op("et_vk.linear_q4gsw.default", {in, weight, scales, p.integer(group), p.null(), out});
    p.output(out);
    const Floats wanted = product(x, w.values, depth);
    int number = 0;
    for (const std::string_view variant : {"tile", "tile_128", "tile_64", "split_tile"}) {
      // Every day one, in turns: nearly all time goes to compiling.
      if (!is_full() && number++ % 4 != turn) continue;
      forced = {{"product", std::string(variant)}};
      f16_products = true;
      const auto halves = run(p, {x});
      f16_products = false;
      const auto floats = run(p, {x});
      ASSERT_TRUE(succeeds(halves) && succeeds(floats)) << variant;
      const double error = error_of((*halves)[0], wanted);
      EXPECT_LE(error, 0x1p-8) << variant << " " << depth;
      RecordProperty(fmt::format("{}_{}", variant, depth), fmt::format("{:.1e}", error));
      // The option does something where the device can, and nothing elsewhere.
      EXPECT_EQ((*halves)[0] != (*floats)[0], has_f16()) << variant << " " << depth;
    }
  }
}

TEST_P(HalfProductTest, four_products_overflow_above_65504_and_lose_digits_below_6e_5) {
  constexpr std::int64_t kSize = 64;
  struct Sizes {
    float x, weight;
    bool overflows, loses;
  };
  for (const auto& [x, weight, overflows, loses] :
       {Sizes{127, 127, false, false},  // 4 * 127² = 64516
        Sizes{129, 129, true, false},   // 4 * 129² = 66564
        Sizes{0.01F, 0.01F, false, false}, Sizes{1e-3F, 1e-4F, false, true}, Sizes{1e-6F, 1, false, true}}) {
    Program p;
    const auto in = p.input(p.tensor(DType::f32, {kSize, kSize}));
    const auto out = p.tensor(DType::f32, {kSize, kSize});
    const Floats weights(kSize * kSize, weight);
    p.op("aten.mm.default", {in, p.filled(DType::f32, {kSize, kSize}, weights), out});
    p.output(out);
    forced = {{"product", "tile"}};
    f16_products = true;
    const auto halves = run(p, {Floats(kSize * kSize, x)});
    ASSERT_TRUE(succeeds(halves));
    const float wanted = kSize * x * weight;
    const float got = (*halves)[0][0];
    EXPECT_EQ(std::isinf(got), overflows && has_f16()) << x;
    EXPECT_EQ(std::abs(got / wanted - 1) <= 0x1p-8F, !((overflows || loses) && has_f16())) << x << " " << got;
  }
}

TEST_P(HalfProductTest, without_shader_f16_no_kernel_has_it) {
  Program p;
  const auto in = p.input(p.tensor(DType::f32, {40, 64}));
  const auto out = p.tensor(DType::f32, {40, 64});
  p.op("aten.mm.default", {in, p.filled(DType::f32, {64, 64}, p.floats(64 * 64)), out});
  p.output(out);
  for (const bool device_has : {false, true}) {
    for (const bool option : {false, true}) {
      DeviceProfile profile;
      profile.shader_f16 = device_has;
      Options options{.f16_products = option};
      options.variants = {{"product", "tile"}};
      const auto plan = Plan::make(p.graph, profile, options, ops::registry());
      ASSERT_TRUE(succeeds(plan));
      const bool multiplies_halves = std::ranges::any_of(
          (*plan)->layout().pipelines, [](const PipelineDesc& desc) { return desc.wgsl.contains("f16"); });
      EXPECT_EQ(multiplies_halves, device_has && option);
    }
  }
}

}  // namespace
}  // namespace nibble::test
