// Attention on the device, by the kernels for CPU adapters and by the tiles for GPUs: a plan is made for a profile of
// either kind, or with a tile for all rows, and runs on whatever adapter there is.
#include <cmath>
#include <random>

#include "gpu_fixture.hpp"
#include "ops/registry.hpp"
#include "support/graph_builder.hpp"

namespace nibble::test {
namespace {

struct Sizes {
  std::int64_t batch, heads, key_heads, size, positions;
  DType dtype = DType::f32;  ///< of everything on the device
};

Floats random_floats(std::mt19937& random, std::int64_t count) {
  // Multiples of 1/16 are exact in float16.
  Floats v(static_cast<std::size_t>(count));
  for (auto& f : v) f = static_cast<float>(static_cast<int>(random() % 65) - 32) / 16;
  return v;
}

/// sdpa_with_kv_cache with empty caches, at a position that an input gives.
struct Cached : GraphBuilder, ConstantSource {
  Sizes n;
  std::int64_t most;
  std::vector<std::byte> zeros;

  Cached(Sizes sizes, std::int64_t rows) : n(sizes), most(rows) {
    const auto activation = [&](std::int64_t heads) {
      const auto id = tensor(n.dtype, {n.batch, most, heads, n.size});
      graph.tensor(id)->staging = DType::f32;
      return id;
    };
    const auto position = input(tensor(DType::i32, {1}));
    const auto q = input(activation(n.heads));
    const auto k = input(activation(n.key_heads));
    const auto v = input(activation(n.key_heads));
    const Shape cache{n.batch, n.positions, n.key_heads, n.size};
    const auto k_cache = constant(n.dtype, cache);
    const auto v_cache = constant(n.dtype, cache);
    zeros.resize(static_cast<std::size_t>(cache.numel()) * 4);
    const auto start = symint();
    const auto out = activation(n.heads);
    op("et_vk.select_as_symint.default", {position, integer(0), integer(0), start});
    op("sdpa_with_kv_cache.default",
       {q, k, v, k_cache, v_cache, start, integer(1), null(), integer(0), boolean(true), null(), out});
    output(out);
  }
  Status read(std::uint32_t i, std::uint64_t offset, std::span<std::byte> to) override {
    return copy_constant(i, std::span(zeros).first(graph.constants[i].length), offset, to);
  }
};

/// What the caches hold, and attention by its definition.
struct Reference {
  Sizes n;
  Floats keys;
  Floats values;

  explicit Reference(Sizes sizes)
      : n(sizes), keys(static_cast<std::size_t>(n.batch * n.positions * n.key_heads * n.size)), values(keys.size()) {}

  std::size_t at(std::int64_t batch, std::int64_t position, std::int64_t head) const {
    return static_cast<std::size_t>(((batch * n.positions + position) * n.key_heads + head) * n.size);
  }

  Floats step(const Floats& q, const Floats& k, const Floats& v, std::int64_t rows, std::int64_t start) {
    const auto width = n.key_heads * n.size;
    for (std::int64_t b = 0; b < n.batch; ++b) {
      std::copy_n(k.begin() + b * rows * width, rows * width,
                  keys.begin() + static_cast<std::ptrdiff_t>(at(b, start, 0)));
      std::copy_n(v.begin() + b * rows * width, rows * width,
                  values.begin() + static_cast<std::ptrdiff_t>(at(b, start, 0)));
    }
    Floats out(q.size());
    for (std::int64_t item = 0; item < n.batch * rows * n.heads; ++item) {
      const auto batch = item / (rows * n.heads);
      const auto seen = start + item / n.heads % rows + 1;
      const auto head = item % n.heads / (n.heads / n.key_heads);
      const auto* query = q.data() + item * n.size;
      std::vector<double> weights;
      double sum = 0;
      for (std::int64_t c = 0; c < seen; ++c) {
        double score = 0;
        for (std::int64_t d = 0; d < n.size; ++d) {
          score += double{query[d]} * keys[at(batch, c, head) + static_cast<std::size_t>(d)];
        }
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(n.size))));
        sum += weights.back();
      }
      for (std::int64_t d = 0; d < n.size; ++d) {
        double value = 0;
        for (std::int64_t c = 0; c < seen; ++c) {
          value += weights[static_cast<std::size_t>(c)] * values[at(batch, c, head) + static_cast<std::size_t>(d)];
        }
        out[static_cast<std::size_t>(item * n.size + d)] = static_cast<float>(value / sum);
      }
    }
    return out;
  }
};

class AttentionTest : public GpuTest, public testing::WithParamInterface<std::string> {
 protected:
  /// Runs also with a dispatch for each workgroup: that makes no difference.
  void check(Sizes n, const std::vector<std::pair<std::int64_t, std::int32_t>>& steps) {
    std::int64_t most = 1;
    for (const auto& [rows, start] : steps) most = std::max(most, rows);
    Cached program(n, most);
    Options options;
    if (GetParam().ends_with("tile")) options.variants = {{"attention", GetParam()}};
    if (GetParam().starts_with("subgroup") && !Internals::of(device)->gpu->profile().subgroups) {
      GTEST_SKIP() << "this device has no subgroups";
    }
    const auto whole = executor_of(program, options);
    options.max_batch_work = 1;
    const auto pieces = executor_of(program, options);
    ASSERT_TRUE(succeeds(whole));
    ASSERT_TRUE(succeeds(pieces));
    Reference reference(n);
    std::mt19937 random(3);
    for (const auto& [rows, start] : steps) {
      const auto q = random_floats(random, n.batch * rows * n.heads * n.size);
      const auto k = random_floats(random, n.batch * rows * n.key_heads * n.size);
      const auto v = random_floats(random, n.batch * rows * n.key_heads * n.size);
      const std::vector<std::int32_t> position{start};
      const std::vector<HostTensor> inputs{tensor(DType::i32, {1}, position),
                                           tensor(DType::f32, {n.batch, rows, n.heads, n.size}, q),
                                           tensor(DType::f32, {n.batch, rows, n.key_heads, n.size}, k),
                                           tensor(DType::f32, {n.batch, rows, n.key_heads, n.size}, v)};
      const auto got = run(**whole, inputs, q.size());
      ASSERT_TRUE(succeeds(got));
      const auto wanted = reference.step(q, k, v, rows, start);
      const float tolerance = n.dtype == DType::f16 ? 3e-3F : 3e-5F;
      for (std::size_t i = 0; i < got->size(); ++i) {
        ASSERT_NEAR((*got)[i], wanted[i], tolerance) << rows << " rows at " << start << ", element " << i;
      }
      const auto same = run(**pieces, inputs, q.size());
      ASSERT_TRUE(succeeds(same));
      EXPECT_EQ(*same, *got) << rows << " rows at " << start;
    }
  }

 private:
  Result<std::unique_ptr<gpu::Executor>> executor_of(Cached& program, const Options& options) {
    DeviceProfile profile = Internals::of(device)->gpu->profile();
    profile.kind = GetParam() == "cpu" ? AdapterKind::cpu : AdapterKind::discrete;
    TRY_ASSIGN(const auto plan, Plan::make(program.graph, profile, options, ops::registry()));
    TRY_ASSIGN(const auto model, gpu::ModelResources::make(Internals::of(device)->gpu, plan, program, {}));
    return gpu::Executor::make(model, boundary_of(program.graph, plan), program);
  }

  static Result<Floats> run(gpu::Executor& executor, std::span<const HostTensor> inputs, std::size_t count) {
    TRY(executor.set_inputs(inputs));
    Floats got(count);
    const HostOutput output{DType::f32, got.data(), got.size() * 4};
    TRY(executor.submit({&output, 1}));
    TRY(executor.wait({&output, 1}));
    return got;
  }
};

INSTANTIATE_TEST_SUITE_P(Forms, AttentionTest,
                         testing::Values("cpu", "discrete", "wide_tile", "subgroup_tile", "subgroup_wide_tile"),
                         [](const auto& form) { return form.param; });

TEST_P(AttentionTest, of_grouped_heads) { check({1, 8, 2, 64, 300}, {{70, 0}, {1, 70}, {3, 71}, {1, 299}, {9, 200}}); }

TEST_P(AttentionTest, of_heads_of_their_own) { check({1, 3, 3, 20, 200}, {{5, 0}, {1, 5}, {1, 199}, {130, 6}}); }

TEST_P(AttentionTest, of_odd_sizes) {
  for (const std::int64_t size : {1, 3, 18, 84, 255, 256}) check({1, 4, 2, size, 150}, {{2, 0}, {1, 2}, {33, 100}});
}

TEST_P(AttentionTest, of_batches) { check({3, 2, 1, 7, 150}, {{4, 0}, {1, 4}, {1, 149}}); }

TEST_P(AttentionTest, of_many_heads_that_share_one) { check({1, 13, 1, 12, 150}, {{4, 0}, {1, 4}, {1, 149}}); }

TEST_P(AttentionTest, in_half_precision) {
  for (const std::int64_t size : {5, 16}) check({1, 4, 2, size, 150, DType::f16}, {{4, 0}, {1, 4}, {1, 149}});
}

}  // namespace
}  // namespace nibble::test
