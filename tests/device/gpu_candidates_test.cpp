// The largest logits, found on the device.
#include <cmath>
#include <limits>
#include <random>

#include "generate/sampler.hpp"
#include "gpu_fixture.hpp"

namespace nibble::test {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

/// y = -x
BlobBuilder negated(std::vector<std::uint32_t> shape, DType dtype = DType::f32) {
  BlobBuilder b;
  const int x = b.tensor(dtype, shape);
  const int y = b.tensor(dtype, shape);
  b.op("aten.neg.default", {x, y});
  b.inputs({x});
  b.outputs({y});
  return b;
}

struct Found {
  Floats values;
  std::vector<std::int32_t> ids;
  float total = 0;
};

class CandidatesTest : public GpuTest {
 protected:
  /// Reads back only the candidates of the last of `rows` rows, which are those of `logits`.
  static Found find(Session& session, std::int64_t rows, const Floats& logits, DType dtype = DType::f32) {
    const auto width = static_cast<std::int64_t>(logits.size());
    // What is no zero in the rows before would be found if they were looked at.
    Floats x(static_cast<std::size_t>(rows * width), -1e30F);
    std::ranges::transform(logits, x.end() - width, std::negate{});
    HostTensor input = tensor(DType::f32, {rows, width}, x);
    EXPECT_TRUE(succeeds(session.set_inputs({&input, 1})));
    Found found;
    found.values.resize(static_cast<std::size_t>(session.output_shape(1).numel()));
    found.ids.resize(static_cast<std::size_t>(session.output_shape(2).numel()));
    const HostOutput outputs[] = {{dtype, nullptr, 0},
                                  {DType::f32, found.values.data(), found.values.size() * 4},
                                  {DType::i32, found.ids.data(), found.ids.size() * 4},
                                  {DType::f32, &found.total, 4}};
    EXPECT_TRUE(succeeds(session.execute(outputs)));
    return found;
  }

  static void expect_largest(const Found& found, const Floats& logits, std::size_t count) {
    std::vector<std::int32_t> order(logits.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    const auto at = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
    std::ranges::sort(order, [&](auto a, auto b) { return at(a) > at(b) || (at(a) == at(b) && a < b); });
    double total = 0;
    for (const auto logit : logits) total += std::exp(double{logit} - at(order.front()));
    order.resize(std::min(count, order.size()));
    ASSERT_EQ(found.ids, order);
    for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(found.values[i], at(order[i])) << i;
    if (at(order.front()) > -kInfinite) {
      EXPECT_NEAR(found.total / total, 1, generate::Sampler::kTolerance / 2);
    }
  }

  /// All patterns in which rows can lie.
  void check(std::uint32_t width, std::size_t count, std::uint32_t rows = 1, std::string variant = "thread") {
    SCOPED_TRACE(fmt::format("{} of {}, {} rows", count, width, rows));
    LoadOptions options;
    options.candidates = count;
    options.variants = {{"candidates", std::move(variant)}};
    auto loaded = load(negated({rows, width}), options);
    ASSERT_TRUE(succeeds(loaded));
    std::mt19937 random(width + rows);
    std::normal_distribution<float> normal(0, 3);
    const auto run = [&](std::string_view what, auto&& make) {
      SCOPED_TRACE(what);
      Floats logits(width);
      for (std::size_t i = 0; i < width; ++i) logits[i] = make(i);
      for (std::uint32_t live = 1; live <= rows; ++live) {
        expect_largest(find(loaded->session, live, logits), logits, count);
      }
    };
    run("random", [&](std::size_t) { return normal(random); });
    run("equal", [](std::size_t) { return -2.5F; });
    run("ties", [&](std::size_t) { return static_cast<float>(random() % 5) - 2; });
    run("rising", [&](std::size_t i) { return static_cast<float>(i) / 1000; });
    run("falling", [&](std::size_t i) { return -static_cast<float>(i) / 1000; });
    run("few", [&](std::size_t i) { return i % 97 == 3 ? static_cast<float>(i % 11) : -kInfinite; });
    run("two zeros", [&](std::size_t i) { return i % 2 == 0 ? 0.0F : -0.0F; });
    run("none", [&](std::size_t) { return -kInfinite; });
  }
};

TEST_F(CandidatesTest, are_the_largest_in_order_whatever_the_sizes) {
  for (const std::uint32_t width : {1U, 3U, 65U}) {
    for (const std::size_t count : {1U, 64U}) check(width, count);
  }
  check(1000, 1024);
  check(4097, 300);
  check(16384, 1);
  check(49152, 64);
  check(200003, 64);
}

TEST_F(CandidatesTest, are_those_of_the_last_row) {
  for (const std::uint32_t width : {1U, 6U, 7U, 4099U}) check(width, 5, 4);
}

TEST_F(CandidatesTest, are_the_same_where_lanes_share_what_they_read) {
  if (!Internals::of(device)->gpu->profile().subgroups) GTEST_SKIP() << "this device has no subgroups";
  for (const std::uint32_t width : {1U, 7U, 65U, 4099U}) check(width, 5, 4, "shared");
  check(49152, 64, 1, "shared");
}

TEST_F(CandidatesTest, of_half_precision_are_its_elements) {
  LoadOptions options;
  options.candidates = 40;
  auto loaded = load(negated({2, 777}, DType::f16), options);
  ASSERT_TRUE(succeeds(loaded));
  Floats logits(777);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 5 % 256) / 16;
  for (const std::int64_t rows : {1, 2}) {
    expect_largest(find(loaded->session, rows, logits, DType::f16), logits, 40);
  }
}

TEST_F(CandidatesTest, what_is_not_a_number_makes_the_total_none) {
  LoadOptions options;
  options.candidates = 8;
  auto loaded = load(negated({1, 5000}), options);
  ASSERT_TRUE(succeeds(loaded));
  for (const std::size_t place : {0U, 17U, 4999U}) {
    for (const float bad : {std::nanf(""), -std::nanf(""), kInfinite}) {
      Floats logits(5000, 1.5F);
      logits[place] = bad;
      EXPECT_TRUE(std::isnan(find(loaded->session, 1, logits).total)) << place << " " << bad;
    }
  }
  expect_largest(find(loaded->session, 1, Floats(5000, 1.5F)), Floats(5000, 1.5F), 8);
}

TEST_F(CandidatesTest, are_outputs_after_those_of_the_program) {
  LoadOptions options;
  options.candidates = 8;
  const auto loaded = load(negated({1, 6}), options);
  ASSERT_TRUE(succeeds(loaded));
  const auto& outputs = loaded->model.outputs();
  ASSERT_EQ(outputs.size(), 4U);
  EXPECT_EQ(outputs[1].shape, (Shape{6}));
  EXPECT_EQ(outputs[2].dtype, DType::i32);
  EXPECT_EQ(outputs[3].shape, (Shape{1}));
  const Floats x{3, -1, 2, -1, 0, 9};
  HostTensor input = tensor(DType::f32, {1, 6}, x);
  const auto all = loaded->model.run({&input, 1});
  ASSERT_TRUE(succeeds(all));
  const auto* ids = reinterpret_cast<const std::int32_t*>((*all)[2].data.get());
  EXPECT_EQ(std::vector<std::int32_t>(ids, ids + 6), (std::vector<std::int32_t>{1, 3, 4, 2, 0, 5}));
  EXPECT_EQ(reinterpret_cast<const float*>((*all)[0].data.get())[1], 1);
}

}  // namespace
}  // namespace nibble::test
