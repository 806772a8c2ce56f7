// Matrix products on the device, by the kernels for CPU adapters and by those for GPUs: a plan is made for a profile of
// either kind and runs on whatever adapter there is.
#include "gpu/host_convert.hpp"
#include "linear_fixture.hpp"

namespace nibble::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Kinds, LinearTest, testing::Values(AdapterKind::cpu, AdapterKind::discrete),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

constexpr Shape4 kShapes[] = {{1, 64, 64, 32},  {1, 64, 36, 64},   {1, 2048, 20, 32}, {4, 32, 8, 32}, {5, 96, 100, 32},
                              {33, 64, 72, 32}, {1, 16, 7, 4},     {6, 24, 9, 3},     {2, 7, 5, 7},   {40, 33, 70, 11},
                              {3, 64, 33, 32},  {70, 128, 10, 16}, {1, 1, 1, 1}};

TEST_P(LinearTest, q4_of_any_shape) {
  bool is_half = false;
  for (const auto& [rows, depth, columns, group] : kShapes) {
    // Compiling is what takes the time here: with a bias or without, not both; every day also of one type, in turns.
    const bool has_bias = (rows + columns) % 2 == 0;
    is_half = !is_half;
    for (const DType dtype : {DType::f32, DType::f16}) {
      if (!is_full() && is_half != (dtype == DType::f16)) continue;
      Program p;
      const auto pitch = columns % 2 == 0 ? columns : columns + 3;
      const Q4 w(p, depth, columns, group, pitch);
      const Floats bias = p.floats(static_cast<std::size_t>(columns + 2));
      const Floats x = p.floats(static_cast<std::size_t>(rows * depth));
      const auto in = p.input(p.activation(dtype, {rows, depth}));
      const auto out = p.activation(dtype, {rows, columns});
      const auto weight = p.filled(DType::u8, {columns, (depth + 1) / 2}, w.packed);
      const auto scales = p.filled(DType::f32, {depth / group, pitch}, w.scales);
      p.op("et_vk.linear_q4gsw.default", {in, weight, scales, p.integer(group),
                                          has_bias ? p.filled(DType::f32, {columns + 2}, bias) : p.null(), out});
      p.output(out);
      Floats wanted = product(x, w.values, depth);
      for (std::size_t i = 0; has_bias && i < wanted.size(); ++i) {
        wanted[i] += bias[i % static_cast<std::size_t>(columns)];
      }
      for (const std::uint64_t shard : {std::uint64_t{0}, std::uint64_t{512}}) {
        shard_bytes = (depth + 1) / 2 > 256 ? 0 : shard;
        const auto got = run(p, {x});
        ASSERT_TRUE(succeeds(got)) << rows << " " << depth << " " << columns;
        EXPECT_TRUE(are_near((*got)[0], wanted, dtype == DType::f32 ? 1e-5F : 2e-3F))
            << rows << " rows, depth " << depth << ", " << columns << " columns, " << to_string(dtype) << ", shards "
            << shard_bytes;
      }
    }
  }
}

TEST_P(LinearTest, every_live_number_of_rows) {
  constexpr std::int64_t kDepth = 64;
  constexpr std::int64_t kColumns = 40;
  Program p;
  const Q4 w(p, kDepth, kColumns, 32, kColumns);
  const auto in = p.input(p.tensor(DType::f32, {37, kDepth}));
  const auto out = p.tensor(DType::f32, {37, kColumns});
  const auto weight = p.filled(DType::u8, {kColumns, kDepth / 2}, w.packed);
  p.op("et_vk.linear_q4gsw.default",
       {in, weight, p.filled(DType::f32, {2, kColumns}, w.scales), p.integer(32), p.null(), out});
  p.output(out);
  for (const std::int64_t rows : {37, 1, 0, 2, 3, 4, 5, 36}) {
    const Floats x = p.floats(static_cast<std::size_t>(rows * kDepth));
    const auto got = run(p, {x}, rows);
    ASSERT_TRUE(succeeds(got)) << rows;
    EXPECT_TRUE(are_near((*got)[0], product(x, w.values, kDepth), 1e-5F)) << rows;
  }
}

TEST_P(LinearTest, q4_by_channel_with_the_nibbles_swapped) {
  for (const auto& [rows, depth, columns] : {std::array{1L, 64L, 33L}, {9L, 96L, 12L}, {5L, 10L, 6L}, {1L, 7L, 4L}}) {
    Program p;
    const Q4 w(p, depth, columns, depth, columns, true);
    const Floats x = p.floats(static_cast<std::size_t>(rows * depth));
    const auto in = p.input(p.tensor(DType::f32, {1, rows, depth}));
    const auto out = p.tensor(DType::f32, {1, rows, columns});
    const auto weight = p.filled(DType::u8, {columns, (depth + 1) / 2}, w.packed);
    p.op("et_vk.linear_qcs4w.default", {in, weight, p.filled(DType::f32, {columns}, w.scales), out});
    p.output(out);
    const auto got = run(p, {x});
    ASSERT_TRUE(succeeds(got));
    EXPECT_TRUE(are_near((*got)[0], product(x, w.values, depth), 1e-5F)) << rows << " " << depth << " " << columns;
  }
}

TEST_P(LinearTest, q4_of_rows_rounded_to_8_bits) {
  for (const auto& [rows, depth, columns, group] : kShapes) {
    Program p;
    const Q4 w(p, depth, columns, group, columns);
    const Floats x = p.floats(static_cast<std::size_t>(rows * depth));
    const Floats bias = p.floats(static_cast<std::size_t>(columns));
    Floats steps;
    std::vector<std::int8_t> zeros;
    Floats rounded;
    for (std::int64_t m = 0; m < rows; ++m) {
      steps.push_back(0.011F + 0.003F * static_cast<float>(m % 5));
      zeros.push_back(static_cast<std::int8_t>(m * 17 % 60 - 30));
      for (std::int64_t k = 0; k < depth; ++k) {
        const auto z = static_cast<float>(zeros.back());
        const float step = std::nearbyint(x[static_cast<std::size_t>(m * depth + k)] / steps.back()) + z;
        rounded.push_back((std::clamp(step, -128.0F, 127.0F) - z) * steps.back());
      }
    }
    const auto in = p.input(p.tensor(DType::f32, {rows, depth}));
    const auto out = p.tensor(DType::f32, {rows, columns});
    const auto weight = p.filled(DType::u8, {columns, (depth + 1) / 2}, w.packed);
    const auto scales = p.filled(DType::f32, {depth / group, columns}, w.scales);
    p.op("et_vk.linear_dq8ca_q4gsw.default",
         {in, p.filled(DType::f32, {rows}, steps), p.filled(DType::i8, {rows}, zeros), weight, p.null(), scales,
          p.integer(group), p.filled(DType::f32, {columns}, bias), out});
    p.output(out);
    Floats wanted = product(rounded, w.values, depth);
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += bias[i % bias.size()];
    const auto got = run(p, {x});
    ASSERT_TRUE(succeeds(got));
    EXPECT_TRUE(are_near((*got)[0], wanted, 1e-4F)) << rows << " " << depth << " " << columns;
  }
}

TEST_P(LinearTest, parts_and_gates_take_one_dispatch) {
  for (const auto& [rows, depth, group] : {std::array{1L, 64L, 32L}, {7L, 96L, 32L}, {35L, 40L, 8L}, {2L, 12L, 3L}}) {
    for (const bool is_gated : {false, true}) {
      Program p;
      const std::vector<std::int64_t> widths = is_gated ? std::vector{36L, 36L} : std::vector{68L, 4L, 20L};
      std::vector<std::uint8_t> packed;
      Floats scales;
      std::vector<Floats> values;
      for (const auto width : widths) {
        const Q4 w(p, depth, width, group, width + 4);
        packed.insert(packed.end(), w.packed.begin(), w.packed.end());
        scales.insert(scales.end(), w.scales.begin(), w.scales.end());
        values.push_back(w.values);
      }
      const auto in = p.input(p.tensor(DType::f32, {rows, depth}));
      const auto rows_of_all = static_cast<std::int64_t>(packed.size()) / (depth / 2);
      const auto weight = p.filled(DType::u8, {rows_of_all, depth / 2}, packed);
      const auto scale = p.filled(DType::f32, {static_cast<std::int64_t>(scales.size())}, scales);
      const auto pitches = is_gated ? IntList{40, 40} : IntList{72, 8, 24};
      const Floats x = p.floats(static_cast<std::size_t>(rows * depth));
      std::vector<Floats> wanted;
      for (const auto& v : values) wanted.push_back(product(x, v, depth));
      if (is_gated) {
        const auto out = p.tensor(DType::f32, {rows, widths[0]});
        p.op("nibble.linear_q4gsw_gated", {in, weight, scale, p.integer(group), p.ints({widths.begin(), widths.end()}),
                                           p.ints(pitches), p.null(), out});
        p.output(out);
        for (std::size_t i = 0; i < wanted[0].size(); ++i) {
          wanted[0][i] = wanted[0][i] / (1 + std::exp(-wanted[0][i])) * wanted[1][i];
        }
      } else {
        std::vector<ValueId> outs;
        for (const auto width : widths) outs.push_back(p.tensor(DType::f32, {rows, width}));
        p.op("nibble.linear_q4gsw_parts", {in, weight, scale, p.integer(group), p.ints({widths.begin(), widths.end()}),
                                           p.ints(pitches), p.null(), p.list(outs)});
        for (const auto out : outs) p.output(out);
      }
      const auto got = run(p, {x});
      ASSERT_TRUE(succeeds(got));
      EXPECT_EQ(dispatches, 1U);
      for (std::size_t i = 0; i < got->size(); ++i) {
        EXPECT_TRUE(are_near((*got)[i], wanted[i], 1e-4F)) << rows << " " << depth << " output " << i;
      }
    }
  }
}

TEST_P(LinearTest, float_matrices_of_any_shape) {
  for (const auto& [rows, depth, columns, unused] : kShapes) {
    for (const DType dtype : {DType::f32, DType::f16}) {
      Program p;
      const auto size = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
      const Floats x = p.floats(size(2 * rows, depth));
      const Floats w = p.floats(size(2 * columns, depth));
      const Floats row = p.floats(static_cast<std::size_t>(columns));
      const Floats transposed = [&] {
        Floats t(w.size());
        const auto d = static_cast<std::size_t>(depth);
        const auto c = static_cast<std::size_t>(columns);
        for (std::size_t i = 0; i < w.size(); ++i) t[(i / (c * d) * d + i % d) * c + i / d % c] = w[i];
        return t;
      }();
      const auto half = [](const Floats& v, bool second) {
        const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
        return second ? Floats(middle, v.end()) : Floats(v.begin(), middle);
      };
      const auto first = p.input(p.activation(dtype, {rows, depth}));
      const auto weight = p.input(p.activation(dtype, {columns, depth}));
      const auto mat2 = p.input(p.activation(dtype, {depth, columns}));
      const auto bias = p.input(p.activation(dtype, {columns}));
      const auto both = p.input(p.activation(dtype, {2, rows, depth}));
      const auto mats = p.input(p.activation(dtype, {2, depth, columns}));
      std::vector<ValueId> outs;
      for (int i = 0; i < 4; ++i) outs.push_back(p.activation(dtype, {rows, columns}));
      outs.push_back(p.activation(dtype, {2, rows, columns}));
      p.op("aten.linear.default", {first, weight, bias, outs[0]});
      p.op("aten.mm.default", {first, mat2, outs[1]});
      p.op("aten.addmm.default", {bias, first, mat2, p.integer(2), p.number(0.5), outs[2]});
      p.op("aten.addmm.default", {outs[0], first, mat2, p.integer(1), p.integer(1), outs[3]});
      p.op("aten.bmm.default", {both, mats, outs[4]});
      for (const auto out : outs) p.output(out);
      const Floats plain = product(half(x, false), half(w, false), depth);
      const Floats second = product(half(x, true), half(w, true), depth);
      std::vector<Floats> wanted = {plain, plain, plain, plain, plain};
      for (std::size_t i = 0; i < plain.size(); ++i) {
        const float b = row[i % row.size()];
        wanted[0][i] = plain[i] + b;
        wanted[2][i] = 0.5F * plain[i] + 2 * b;
        wanted[3][i] = 2 * plain[i] + b;
      }
      wanted[4].insert(wanted[4].end(), second.begin(), second.end());
      const auto got = run(p, {half(x, false), half(w, false), half(transposed, false), row, x, transposed});
      ASSERT_TRUE(succeeds(got));
      for (std::size_t i = 0; i < got->size(); ++i) {
        EXPECT_TRUE(are_near((*got)[i], wanted[i], dtype == DType::f32 ? 1e-5F : 4e-3F))
            << rows << " " << depth << " " << columns << " " << to_string(dtype) << " output " << i;
      }
    }
  }
}

TEST_P(LinearTest, constant_matrices_in_shards_of_columns) {
  for (const std::int64_t columns : {37, 64}) {
    for (const DType dtype : {DType::f32, DType::f16}) {
      constexpr std::int64_t kDepth = 10;
      Program p;
      const Floats x = p.floats(2 * 3 * kDepth);
      const Floats mats = p.floats(static_cast<std::size_t>(2 * kDepth * columns));
      std::vector<std::uint16_t> halves;
      for (const float v : mats) halves.push_back(gpu::half_from_double(v));
      const auto matrix = [&](Shape shape) {
        const auto size = static_cast<std::size_t>(shape.numel());
        return dtype == DType::f32 ? p.filled(dtype, shape, Floats(mats.begin(), mats.begin() + size))
                                   : p.filled(dtype, shape, std::vector(halves.begin(), halves.begin() + size));
      };
      const auto both = p.input(p.activation(dtype, {2, 3, kDepth}));
      const auto first = p.input(p.activation(dtype, {3, kDepth}));
      const auto bias = p.input(p.activation(dtype, {columns}));
      const std::array outs = {p.activation(dtype, {3, columns}), p.activation(dtype, {3, columns}),
                               p.activation(dtype, {2, 3, columns})};
      p.op("aten.mm.default", {first, matrix({kDepth, columns}), outs[0]});
      p.op("aten.addmm.default", {bias, first, matrix({kDepth, columns}), p.integer(2), p.number(0.5), outs[1]});
      p.op("aten.bmm.default", {both, matrix({2, kDepth, columns}), outs[2]});
      for (const auto out : outs) p.output(out);
      const Floats row = p.floats(static_cast<std::size_t>(columns));
      std::array<Floats, 3> wanted;
      for (std::size_t i = 0; i < static_cast<std::size_t>(2 * 3 * columns); ++i) {
        const auto m = i / static_cast<std::size_t>(columns);
        const auto n = i % static_cast<std::size_t>(columns);
        double sum = 0;
        for (std::size_t k = 0; k < kDepth; ++k) {
          sum += static_cast<double>(x[m * kDepth + k]) *
                 mats[(m / 3 * kDepth + k) * static_cast<std::size_t>(columns) + n];
        }
        if (m < 3) wanted[0].push_back(static_cast<float>(sum));
        if (m < 3) wanted[1].push_back(static_cast<float>(0.5 * sum + 2 * row[n]));
        wanted[2].push_back(static_cast<float>(sum));
      }
      shard_bytes = 400;
      const auto got = run(p, {x, Floats(x.begin(), x.begin() + 3 * kDepth), row});
      ASSERT_TRUE(succeeds(got));
      EXPECT_GE(dispatches, 6U);
      for (std::size_t i = 0; i < got->size(); ++i) {
        EXPECT_TRUE(are_near((*got)[i], wanted[i], dtype == DType::f32 ? 1e-5F : 4e-3F))
            << columns << " columns, " << to_string(dtype) << ", output " << i;
      }
    }
  }
}

// Every variant, forced: sections, gates, tails of all sizes, and depths that are worth a split.
using ProductTest = LinearTest;

INSTANTIATE_TEST_SUITE_P(Kinds, ProductTest, testing::Values(AdapterKind::discrete),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

/// Products of one input of each depth, and what they give.
struct Products {
  Program p;
  std::vector<Floats> inputs;
  std::vector<Floats> wanted;
  std::int64_t rows;

  explicit Products(std::int64_t count) : rows(count) {}

  std::pair<ValueId, Floats> input(DType dtype, std::int64_t depth) {
    inputs.push_back(p.floats(static_cast<std::size_t>(rows * depth)));
    return {p.input(p.activation(dtype, {rows, depth})), inputs.back()};
  }
  ValueId result(std::int64_t columns, DType dtype, Floats values) {
    const auto out = p.activation(dtype, {rows, columns});
    p.output(out);
    wanted.push_back(std::move(values));
    return out;
  }

  void q4(std::int64_t depth, std::int64_t columns, std::int64_t group, DType dtype = DType::f32) {
    const Q4 w(p, depth, columns, group, columns);
    const auto [x, values] = input(dtype, depth);
    const auto weight = p.filled(DType::u8, {columns, (depth + 1) / 2}, w.packed);
    const auto scales = p.filled(DType::f32, {depth / group, columns}, w.scales);
    p.op("et_vk.linear_q4gsw.default",
         {x, weight, scales, p.integer(group), p.null(), result(columns, dtype, product(values, w.values, depth))});
  }
  void gated(std::int64_t depth, std::int64_t columns) {
    const Q4 a(p, depth, columns, 32, columns);
    const Q4 b(p, depth, columns, 32, columns);
    const auto [x, values] = input(DType::f32, depth);
    std::vector<std::uint8_t> packed = a.packed;
    packed.insert(packed.end(), b.packed.begin(), b.packed.end());
    Floats scales = a.scales;
    scales.insert(scales.end(), b.scales.begin(), b.scales.end());
    // Small, so that gates are neither open nor shut.
    for (auto& scale : scales) scale /= 256;
    Floats gates = product(values, a.values, depth);
    const Floats ups = product(values, b.values, depth);
    for (std::size_t i = 0; i < gates.size(); ++i) {
      const float gate = gates[i] / 256;
      gates[i] = gate / (1 + std::exp(-gate)) * ups[i] / 256;
    }
    p.op("nibble.linear_q4gsw_gated",
         {x, p.filled(DType::u8, {2 * columns, depth / 2}, packed),
          p.filled(DType::f32, {static_cast<std::int64_t>(scales.size())}, scales), p.integer(32),
          p.ints({columns, columns}), p.ints({columns, columns}), p.null(), result(columns, DType::f32, gates)});
  }
  void floats(std::int64_t depth, std::int64_t columns, bool by_rows, bool by_columns) {
    const Floats w = p.floats(static_cast<std::size_t>(columns * depth));
    const Floats bias = p.floats(static_cast<std::size_t>(columns));
    Floats turned(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      turned[i % static_cast<std::size_t>(depth) * bias.size() + i / static_cast<std::size_t>(depth)] = w[i];
    }
    const auto [x, values] = input(DType::f32, depth);
    Floats sums = product(values, w, depth);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += bias[i % bias.size()];
    const auto added = p.filled(DType::f32, {columns}, bias);
    if (by_rows) {
      p.op("aten.linear.default",
           {x, p.filled(DType::f32, {columns, depth}, w), added, result(columns, DType::f32, sums)});
    }
    if (by_columns) {
      p.op("aten.addmm.default", {added, x, p.filled(DType::f32, {depth, columns}, turned), p.integer(1), p.integer(1),
                                  result(columns, DType::f32, sums)});
    }
  }
};

TEST_P(ProductTest, every_variant_gives_the_same) {
  bool is_odd = false;
  for (const auto* choice : all_choices(ops::registry())) {
    if (choice->name != "product") continue;
    for (const auto& variant : choice->variants) {
      // No multiple of any tile's rows.
      Products all(variant.right.max_rows < 37 ? 3 : 37);
      all.q4(96, 68, 32);
      all.q4(2112, 20, 64);
      all.q4(30, 12, 5, DType::f16);
      all.gated(2080, 12);
      // Every day, of odd sizes by rows and of even ones by columns, and with the next variant the other way.
      is_odd = !is_odd;
      all.floats(45, 70, is_full() || is_odd, is_full() || !is_odd);
      all.floats(2052, 8, is_full() || !is_odd, is_full() || is_odd);
      forced = {{"product", std::string(variant.name)}};
      const auto got = run(all.p, all.inputs);
      ASSERT_TRUE(succeeds(got)) << variant.name;
      ASSERT_EQ(got->size(), all.wanted.size());
      for (std::size_t i = 0; i < got->size(); ++i) {
        EXPECT_TRUE(are_near((*got)[i], all.wanted[i], i == 2 ? 4e-3F : 1e-4F)) << variant.name << ", output " << i;
      }
    }
  }
}

TEST_P(ProductTest, long_depths_of_few_columns_are_split) {
  for (const std::int64_t rows : {1, 4, 40}) {
    Products all(rows);
    all.q4(4096, 36, 32);
    const auto got = run(all.p, all.inputs);
    ASSERT_TRUE(succeeds(got));
    EXPECT_EQ(dispatches, 2U) << rows;
    EXPECT_TRUE(are_near((*got)[0], all.wanted[0], 1e-4F)) << rows;
  }
}

}  // namespace
}  // namespace nibble::test
