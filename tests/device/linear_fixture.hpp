// Programs with matrix products, what they give, and how to run them for a profile of any kind.
#pragma once

#include <cmath>
#include <cstdlib>
#include <random>

#include "gpu_fixture.hpp"
#include "ops/registry.hpp"
#include "support/graph_builder.hpp"

namespace nibble::test {

/// In ./test full. Nearly all time of these tests goes to compiling kernels.
inline bool is_full() { return std::getenv("NIBBLE_TEST_FULL") != nullptr; }

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
inline Floats product(const Floats& x, const Floats& w, std::int64_t depth) {
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

inline testing::AssertionResult are_near(const Floats& got, const Floats& wanted, float tolerance) {
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
    Options options{.max_shard_bytes = shard_bytes, .f16_products = f16_products, .max_batch_work = batch_work};
    options.variants = forced;
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
  bool f16_products = false;
  std::size_t dispatches = 0;
  std::vector<ForcedVariant> forced;
};

}  // namespace nibble::test
