// Matrix products on the device, by the kernels for CPU adapters and by those for GPUs: a plan is made for a profile of
// either kind and runs on whatever adapter there is.
#include <cmath>
#include <random>

#include "gpu/host_convert.hpp"
#include "gpu_fixture.hpp"
#include "ops/registry.hpp"
#include "support/graph_builder.hpp"

namespace nibble::test {
namespace {

using Floats = std::vector<float>;

/// A graph with the bytes of its constants.
struct Program : GraphBuilder, ConstantSource {
  std::vector<std::vector<std::byte>> bytes;
  std::mt19937 random{7};

  Status read(std::uint32_t i, std::uint64_t offset, std::span<std::byte> to) override {
    return copy_constant(i, bytes[i], offset, to);
  }

  template <class T>
  ValueId filled(DType dtype, Shape shape, const std::vector<T>& values) {
    const auto raw = std::as_bytes(std::span(values));
    bytes.emplace_back(raw.begin(), raw.end());
    return constant(dtype, shape);
  }
  /// Stored as float16 or float32, float32 for the caller.
  ValueId activation(DType dtype, Shape shape) {
    const auto id = tensor(dtype, shape);
    graph.tensor(id)->staging = DType::f32;
    return id;
  }
  Floats floats(std::size_t count) {
    // Multiples of 1/16 are exact in float16.
    Floats v(count);
    for (auto& f : v) f = static_cast<float>(static_cast<int>(random() % 65) - 32) / 16;
    return v;
  }
};

struct Shape4 {
  std::int64_t rows, depth, columns, group;
};

/// 4-bit weights with their values.
struct Q4 {
  std::vector<std::uint8_t> packed;
  Floats scales;  ///< [groups, pitch]
  std::int64_t pitch;
  Floats values;  ///< [columns, depth]

  Q4(Program& p, std::int64_t depth, std::int64_t columns, std::int64_t group, std::int64_t width, bool swapped = false)
      : pitch(width) {
    const auto row = (depth + 1) / 2;
    for (std::int64_t i = 0; i < columns * row; ++i) packed.push_back(static_cast<std::uint8_t>(p.random()));
    scales = p.floats(static_cast<std::size_t>(depth / group * pitch));
    for (std::int64_t n = 0; n < columns; ++n) {
      for (std::int64_t k = 0; k < depth; ++k) {
        const auto byte = packed[static_cast<std::size_t>(n * row + k / 2)];
        const int nibble = (k % 2 == 0) != swapped ? byte & 15 : byte >> 4;
        values.push_back(static_cast<float>(nibble - 8) * scales[static_cast<std::size_t>(k / group * pitch + n)]);
      }
    }
  }
};

/// x [rows, depth] times the transpose of w [columns, depth].
Floats product(const Floats& x, const Floats& w, std::int64_t depth) {
  const auto d = static_cast<std::size_t>(depth);
  Floats out;
  for (std::size_t m = 0; m < x.size() / d; ++m) {
    for (std::size_t n = 0; n < w.size() / d; ++n) {
      double sum = 0;
      for (std::size_t k = 0; k < d; ++k) sum += static_cast<double>(x[m * d + k]) * w[n * d + k];
      out.push_back(static_cast<float>(sum));
    }
  }
  return out;
}

testing::AssertionResult are_near(const Floats& got, const Floats& wanted, float tolerance) {
  if (got.size() != wanted.size()) return testing::AssertionFailure() << got.size() << " of " << wanted.size();
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!(std::abs(got[i] - wanted[i]) <= tolerance * (1 + std::abs(wanted[i])))) {
      return testing::AssertionFailure() << "at " << i << ": " << got[i] << ", wanted " << wanted[i];
    }
  }
  return testing::AssertionSuccess();
}

class LinearTest : public GpuTest, public testing::WithParamInterface<AdapterKind> {
 protected:
  /// Runs the program once for each live number of rows (the first dimension of input 0); gives all outputs, which are
  /// the same if each workgroup is a dispatch of its own.
  Result<std::vector<Floats>> run(Program& p, const std::vector<Floats>& inputs, std::int64_t rows = -1) {
    TRY_ASSIGN(auto pieces, run_by(1, p, inputs, rows));
    TRY_ASSIGN(auto whole, run_by(0, p, inputs, rows));
    EXPECT_EQ(pieces, whole);
    return whole;
  }

  Result<std::vector<Floats>> run_by(std::uint64_t batch_work, Program& p, const std::vector<Floats>& inputs,
                                     std::int64_t rows) {
    auto& gpu = *Internals::of(device)->gpu;
    DeviceProfile profile = gpu.profile();
    profile.kind = GetParam();
    const Options options{.max_shard_bytes = shard_bytes, .max_batch_work = batch_work};
    TRY_ASSIGN(const auto plan, Plan::make(p.graph, profile, options, ops::registry()));
    TRY_ASSIGN(const auto model, gpu::ModelResources::make(Internals::of(device)->gpu, plan, p, {}));
    TRY_ASSIGN(const auto executor, gpu::Executor::make(model, boundary_of(p.graph, plan), p));
    std::vector<HostTensor> given;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Shape shape = p.graph.tensor(p.graph.inputs[i])->shape;
      if (rows >= 0 && i == 0) shape[0] = rows;
      given.push_back(test::tensor(DType::f32, shape, inputs[i]));
    }
    TRY(executor->set_inputs(given));
    dispatches = executor->stepper().dispatches().size();
    std::vector<Floats> results;
    std::vector<HostOutput> outputs;
    for (std::size_t i = 0; i < p.graph.outputs.size(); ++i) {
      results.emplace_back(static_cast<std::size_t>(executor->stepper().output_shape(i).numel()));
      outputs.push_back({DType::f32, results.back().data(), results.back().size() * 4});
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].data = results[i].data();
    TRY(executor->submit(outputs));
    TRY(executor->wait(outputs));
    return results;
  }

  std::uint64_t shard_bytes = 0;
  std::size_t dispatches = 0;
};

INSTANTIATE_TEST_SUITE_P(Kinds, LinearTest, testing::Values(AdapterKind::cpu, AdapterKind::discrete),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

constexpr Shape4 kShapes[] = {{1, 64, 64, 32},  {1, 64, 36, 64},   {1, 2048, 20, 32}, {4, 32, 8, 32}, {5, 96, 100, 32},
                              {33, 64, 72, 32}, {1, 16, 7, 4},     {6, 24, 9, 3},     {2, 7, 5, 7},   {40, 33, 70, 11},
                              {3, 64, 33, 32},  {70, 128, 10, 16}, {1, 1, 1, 1}};

TEST_P(LinearTest, q4_of_any_shape) {
  for (const auto& [rows, depth, columns, group] : kShapes) {
    for (const DType dtype : {DType::f32, DType::f16}) {
      // Compiling is what takes the time here: with a bias or without, not both.
      const bool has_bias = (rows + columns) % 2 == 0;
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

}  // namespace
}  // namespace nibble::test
