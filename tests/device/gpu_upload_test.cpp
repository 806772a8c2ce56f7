// What an upload asks of wgpu, counted by functions put before its own.
#include "gpu_fixture.hpp"

namespace nibble::test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct Counts {
  std::uint64_t written = 0;
  std::uint64_t pending = 0;  ///< written since somebody last waited
  std::uint64_t most_pending = 0;
  int writes = 0;
  std::uint64_t waits = 0;  ///< of the device, before the test
};

Counts counts;
std::uint64_t seen = 0;  ///< waits, at the last write
gpu::Functions real;
const gpu::Device* counted = nullptr;

class UploadTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    counts = {};
    counted = Internals::of(device)->gpu.get();
    auto& table = const_cast<gpu::Functions&>(counted->call());
    real = table;
    counts.waits = seen = counted->waits();
    table.QueueWriteBuffer = [](WGPUQueue queue, WGPUBuffer buffer, std::uint64_t at, const void* data, std::size_t n) {
      if (seen != counted->waits()) counts.pending = 0;
      seen = counted->waits();
      counts.written += n;
      counts.pending += n;
      counts.most_pending = std::max(counts.most_pending, counts.pending);
      ++counts.writes;
      real.QueueWriteBuffer(queue, buffer, at, data, n);
    };
  }
  void TearDown() override { const_cast<gpu::Functions&>(counted->call()) = real; }
  static std::uint64_t waits() { return counted->waits() - counts.waits; }

  /// x of one element -> state + x, which becomes the state. Nothing but the state is uploaded.
  static BlobBuilder add_to(const std::vector<float>& initial) {
    BlobBuilder b;
    const auto size = static_cast<std::uint32_t>(initial.size());
    const int x = b.tensor(DType::f32, {1});
    const int state = b.constant(DType::f32, {size}, initial, {.mem_obj = 0});
    const int out = b.tensor(DType::f32, {size});
    b.op("aten.add.Tensor", {state, x, b.integer(1), out});
    b.op("aten.add.Tensor", {state, x, b.integer(1), state});
    b.inputs({x});
    b.outputs({out});
    return b;
  }
  static Result<std::vector<float>> add_one(Session& session) {
    static const std::vector<float> one = {1};
    return call<float>(session, {tensor(DType::f32, {1}, one)}, DType::f32);
  }
};

TEST_F(UploadTest, a_sessions_state_is_uploaded_once_and_nobody_waits_for_it) {
  std::vector<float> initial(9 * kMiB / 4);
  for (std::size_t i = 0; i < initial.size(); ++i) initial[i] = static_cast<float>(i % 1000);
  auto loaded = load(add_to(initial));
  ASSERT_TRUE(succeeds(loaded));
  EXPECT_EQ(counts.written, 9 * kMiB);
  EXPECT_EQ(waits(), 0);
  const auto out = add_one(loaded->session);
  ASSERT_TRUE(succeeds(out));
  for (std::size_t i = 0; i < out->size(); ++i) ASSERT_EQ((*out)[i], initial[i] + 1) << i;
}

TEST_F(UploadTest, zeros_of_a_state_are_not_uploaded) {
  std::vector<float> initial(9 * kMiB / 4);
  auto loaded = load(add_to(initial));
  ASSERT_TRUE(succeeds(loaded));
  EXPECT_EQ(counts.writes, 0);
  EXPECT_EQ(*add_one(loaded->session), std::vector<float>(initial.size(), 1));
  EXPECT_EQ(*add_one(loaded->session), std::vector<float>(initial.size(), 2));

  counts = {};
  initial.back() = 7;
  loaded = load(add_to(initial));
  ASSERT_TRUE(succeeds(loaded));
  EXPECT_EQ(counts.written, kMiB) << "the last chunk alone is not zero";
  const auto out = add_one(loaded->session);
  ASSERT_TRUE(succeeds(out));
  EXPECT_EQ(out->front(), 1);
  EXPECT_EQ(out->back(), 8);
}

TEST_F(UploadTest, what_is_pending_of_a_large_state_is_bounded) {
  ASSERT_TRUE(succeeds(load(add_to(std::vector<float>(36 * kMiB / 4, 1)))));
  EXPECT_EQ(counts.written, 36 * kMiB);
  EXPECT_EQ(counts.most_pending, 32 * kMiB);
  EXPECT_EQ(waits(), 1);
}

TEST_F(UploadTest, weights_go_up_together_as_far_as_a_chunk_goes) {
  ASSERT_TRUE(succeeds(load(embedding())));
  EXPECT_EQ(counts.writes, 2) << "table and scales";
  EXPECT_EQ(waits(), 1);

  counts = {};
  counts.waits = counted->waits();
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {1});
  const int large = b.constant(DType::f32, {9 * kMiB / 4}, std::vector<float>(9 * kMiB / 4, 1));
  const int out = b.tensor(DType::f32, {9 * kMiB / 4});
  b.op("aten.add.Tensor", {large, x, b.integer(1), out});
  b.inputs({x});
  b.outputs({out});
  ASSERT_TRUE(succeeds(load(b)));
  EXPECT_EQ(counts.written, 9 * kMiB);
  EXPECT_EQ(counts.most_pending, 4 * kMiB);
  EXPECT_EQ(waits(), 3);
}

}  // namespace
}  // namespace nibble::test
