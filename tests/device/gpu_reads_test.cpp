// What calls read back: by mapping what kernels wrote, where memory is one, and by a copy for the host.
#include "gpu_fixture.hpp"

namespace nibble::test {
namespace {

constexpr std::int64_t kReadLength = 50;

LoadOptions staged_options() { return {{.staged = true}}; }

/// x and 1 -> the sum of all x so far (state), x itself, x + 1, x + 1 again, and a constant.
BlobBuilder outputs_of_all_kinds() {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {kReadLength});
  const int sum = b.constant(DType::f32, {kReadLength}, std::vector<float>(kReadLength), {.mem_obj = 0});
  const int fixed = b.constant(DType::f32, {kReadLength}, std::vector<float>(kReadLength, 7));
  const int next = b.tensor(DType::f32, {kReadLength});
  b.op("aten.add.Tensor", {sum, x, b.integer(1), sum});
  b.op("aten.add.Tensor", {x, b.constant(DType::f32, {1}, std::vector<float>(1, 1)), b.integer(1), next});
  b.inputs({x});
  b.outputs({sum, x, next, next, fixed});
  return b;
}

class ReadsTest : public LoadedTest {
 protected:
  const Layout& layout() { return Internals::of(loaded->session)->executor->model().plan()->layout(); }
};

TEST_F(ReadsTest, outputs_of_all_kinds_are_right_mapped_and_staged) {
  for (const auto& options : {LoadOptions{}, staged_options()}) {
    Session& s = session(outputs_of_all_kinds(), options);
    std::vector<std::vector<float>> got(5, std::vector<float>(kReadLength));
    for (int i = 1; i <= 3; ++i) {
      const std::vector<float> x(kReadLength, static_cast<float>(i));
      const HostTensor input = tensor(DType::f32, {kReadLength}, x);
      ASSERT_TRUE(succeeds(s.set_inputs({&input, 1})));
      std::vector<HostOutput> outputs;
      for (auto& one : got) outputs.push_back({DType::f32, one.data(), one.size() * 4});
      // One that nobody wants is left alone.
      if (i == 2) outputs[2].data = nullptr;
      ASSERT_TRUE(succeeds(s.execute(outputs)));
      const auto all = [&](std::size_t output, int value) {
        return std::ranges::all_of(got[output], [&](float each) { return each == static_cast<float>(value); });
      };
      EXPECT_TRUE(all(0, i * (i + 1) / 2));
      EXPECT_TRUE(all(1, i));
      EXPECT_TRUE(all(2, i == 2 ? 2 : i + 1));
      EXPECT_TRUE(all(3, i + 1));
      EXPECT_TRUE(all(4, 7));
    }
  }
}

TEST_F(ReadsTest, only_what_cannot_be_mapped_has_room_in_the_staging_buffer) {
  const auto bytes = [](std::uint64_t outputs) {
    return outputs * 208;
  };  // kReadLength floats, to a multiple of 16 bytes
  session(outputs_of_all_kinds());
  const bool can_map = Internals::of(device)->gpu->profile().mapped_storage;
  EXPECT_EQ(layout().staging_bytes, can_map ? bytes(1) : bytes(5) + kFaultWords * 4);
  session(outputs_of_all_kinds(), staged_options());
  EXPECT_EQ(layout().staging_bytes, bytes(5) + kFaultWords * 4);
}

TEST_F(ReadsTest, a_fault_is_read_and_the_next_call_is_right_mapped_and_staged) {
  for (const auto& options : {LoadOptions{}, staged_options()}) {
    BlobBuilder b;
    const int ids = b.tensor(DType::i32, {2, 3});
    const int next = b.tensor(DType::i32, {2, 3});
    b.op("aten.add.Tensor", {ids, b.constant(DType::i32, {1}, std::vector<std::int32_t>(1, 1)), b.integer(1), next});
    b.inputs({ids});
    b.outputs({add_embedding(b, next, {2, 3})});
    Session& s = session(b, options);
    const auto rows = [&](const std::vector<std::int32_t>& given) {
      return call<float>(s, {tensor(DType::i32, {2, 3}, given)}, DType::f32);
    };
    EXPECT_TRUE(fails_with(rows({0, 1, 2, 3, 49, 4}), "[1, 1] is 50, but the table has 50 rows"));
    const auto got = rows({0, 1, 2, 3, 48, 4});
    ASSERT_TRUE(succeeds(got));
    EXPECT_TRUE(are_rows(*got, std::vector<std::int32_t>{1, 2, 3, 4, 49, 5}));
  }
}

TEST_F(ReadsTest, sessions_that_share_a_model_map_their_own_buffers) {
  session(outputs_of_all_kinds());
  auto other = loaded->model.session();
  ASSERT_TRUE(succeeds(other));
  const std::vector<float> x(kReadLength, 2);
  const HostTensor input = tensor(DType::f32, {kReadLength}, x);
  std::vector<float> sum(kReadLength);
  std::vector<HostOutput> outputs(5);
  outputs[0] = {DType::f32, sum.data(), sum.size() * 4};
  for (Session* s : {&loaded->session, &*other}) {
    ASSERT_TRUE(succeeds(s->set_inputs({&input, 1})));
    ASSERT_TRUE(succeeds(s->submit(outputs)));
  }
  for (Session* s : {&loaded->session, &*other}) {
    sum.assign(kReadLength, 0);
    ASSERT_TRUE(succeeds(s->wait()));
    EXPECT_EQ(sum, std::vector<float>(kReadLength, 2));
  }
}

}  // namespace
}  // namespace nibble::test
