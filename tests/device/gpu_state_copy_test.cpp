// A session's state between calls: going back, copying it, storing it.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "api/capi.hpp"
#include "gpu_fixture.hpp"

namespace nibble::test {
namespace {

constexpr std::int64_t kContext = 40;

/// What a cache's program is like. With an odd width, rows in half precision do not end at 4 bytes.
struct CacheForm {
  std::uint32_t batch = 1;
  std::uint32_t heads = 4;
  std::uint32_t width = 8;
  bool half = false;

  std::size_t step() const { return std::size_t{batch} * heads * width; }
  LoadOptions options() const { return {{.f16_cache = half}}; }
};

BlobBuilder cached(const CacheForm& form, float start = 0) {
  BlobBuilder b;
  const std::vector<float> begin(form.step() * kContext, start);
  std::array<int, 3> qkv{};
  for (auto& v : qkv) v = b.tensor(DType::f32, {form.batch, 1, form.heads, form.width});
  const int place = b.tensor(DType::i32, {1});
  const int position = b.symint();
  b.op("et_vk.select_as_symint.default", {place, b.integer(0), b.integer(0), position});
  const int keys = b.constant(DType::f32, {form.batch, kContext, form.heads, form.width}, begin, {.mem_obj = 0});
  const int values = b.constant(DType::f32, {form.batch, kContext, form.heads, form.width}, begin, {.mem_obj = 1});
  const int out = b.tensor(DType::f32, {form.batch, 1, form.heads, form.width});
  b.op("sdpa_with_kv_cache.default", {qkv[0], qkv[1], qkv[2], keys, values, position, b.integer(1), b.null(),
                                      b.number(0), b.boolean(true), b.null(), out});
  b.inputs({qkv[0], qkv[1], qkv[2], place});
  b.outputs({out});
  return b;
}

/// A sum that grows by the input, from `begin` on, and is no cache.
BlobBuilder plain_sum(float begin, float factor = 1) {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {3});
  const int scale = b.constant(DType::f32, {3}, std::vector<float>(3, factor));
  const int scaled = b.tensor(DType::f32, {3});
  b.op("aten.mul.Tensor", {x, scale, scaled});
  const int sum = b.constant(DType::f32, {3}, std::vector<float>{begin, begin + 1, begin + 2}, {.mem_obj = 0});
  b.op("aten.add.Tensor", {sum, scaled, b.integer(1), sum});
  const int out = b.tensor(DType::f32, {3});
  b.op("aten.add.Tensor", {sum, x, b.integer(0), out});
  b.inputs({x});
  b.outputs({out});
  return b;
}

Result<std::vector<float>> add(Session& session) {
  const std::vector<float> ones(3, 1);
  return call<float>(session, {tensor(DType::f32, {3}, ones)}, DType::f32);
}

/// Attention at a place; `seed` gives the numbers.
std::vector<float> step(Session& session, const CacheForm& form, std::int64_t place, std::int64_t seed = 0) {
  std::array<std::vector<float>, 3> qkv;
  for (std::size_t part = 0; part < 3; ++part) {
    for (std::size_t i = 0; i < form.step(); ++i) {
      const auto n = (i * 31 + part * 17 + static_cast<std::size_t>(place) * 13 + static_cast<std::size_t>(seed) * 7);
      qkv[part].push_back(static_cast<float>(n % 23) / 8 - 1);
    }
  }
  const Shape shape{form.batch, 1, form.heads, form.width};
  const std::vector<std::int64_t> at = {place};
  auto out = call<float>(session,
                         {tensor(DType::f32, shape, qkv[0]), tensor(DType::f32, shape, qkv[1]),
                          tensor(DType::f32, shape, qkv[2]), tensor(DType::i64, {1}, at)},
                         DType::f32);
  EXPECT_TRUE(succeeds(out));
  return out.value_or(std::vector<float>());
}

void walk(Session& session, const CacheForm& form, std::int64_t from, std::int64_t to, std::int64_t seed = 0) {
  for (std::int64_t at = from; at < to; ++at) step(session, form, at, seed);
}

std::int64_t rows_of(const Session& session) { return session.states()->front().rows; }

class StateCopyTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    folder = std::filesystem::temp_directory_path() / fmt::format("nibble_state_copy_{}", getpid());
    std::filesystem::create_directory(folder);
    path = folder / "state";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  Loaded make(const BlobBuilder& builder, const LoadOptions& options = {}) {
    auto result = load(builder, options);
    EXPECT_TRUE(succeeds(result));
    return std::move(result.value());
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  }
  std::string saved() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void replace(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }

  std::filesystem::path folder;
  std::string path;
};

const std::array kForms = {CacheForm{}, CacheForm{.half = true}, CacheForm{.batch = 3, .heads = 1, .width = 3},
                           CacheForm{.batch = 3, .heads = 1, .width = 3, .half = true}};

TEST_F(StateCopyTest, a_fork_goes_on_like_its_source_and_goes_its_own_way) {
  for (const auto& form : kForms) {
    auto loaded = make(cached(form), form.options());
    auto straight = make(cached(form), form.options());
    walk(loaded.session, form, 0, 7);
    auto forked = loaded.session.fork();
    ASSERT_TRUE(succeeds(forked));
    EXPECT_EQ(rows_of(*forked), 7);
    auto second = forked->fork();
    ASSERT_TRUE(succeeds(second));
    walk(*forked, form, 7, 12, 5);
    walk(straight.session, form, 0, 7);
    for (std::int64_t at = 7; at < 12; ++at) {
      const auto wanted = step(straight.session, form, at);
      EXPECT_EQ(step(loaded.session, form, at), wanted);
      EXPECT_EQ(step(*second, form, at), wanted);
    }
    EXPECT_EQ(rows_of(*forked), 12);
    EXPECT_NE(step(*forked, form, 12), step(loaded.session, form, 12));
  }
}

TEST_F(StateCopyTest, a_fork_outlives_its_source_and_its_model) {
  const auto objects = device.live_objects();
  {
    std::optional<Loaded> loaded = make(plain_sum(10));
    ASSERT_TRUE(succeeds(add(loaded->session)));
    auto forked = loaded->session.fork();
    ASSERT_TRUE(succeeds(forked));
    loaded.reset();
    EXPECT_EQ(add(*forked), (std::vector<float>{12, 13, 14})) << "a state without rows is copied whole";
  }
  EXPECT_EQ(device.live_objects(), objects);
}

TEST_F(StateCopyTest, what_is_computed_after_a_rewind_is_as_if_it_had_never_gone_further) {
  for (const auto& form : kForms) {
    auto loaded = make(cached(form), form.options());
    auto straight = make(cached(form), form.options());
    walk(loaded.session, form, 0, 30, 5);
    ASSERT_TRUE(succeeds(loaded.session.rewind(0)));
    EXPECT_EQ(rows_of(loaded.session), 0);
    walk(loaded.session, form, 0, 20);
    ASSERT_TRUE(succeeds(loaded.session.rewind(9)));
    EXPECT_EQ(rows_of(loaded.session), 9);
    walk(straight.session, form, 0, 9);
    for (std::int64_t at = 9; at < 14; ++at) {
      EXPECT_EQ(step(loaded.session, form, at), step(straight.session, form, at));
    }
  }
}

TEST_F(StateCopyTest, only_rows_in_use_can_be_rewound_to) {
  const CacheForm form;
  auto loaded = make(cached(form));
  walk(loaded.session, form, 0, 3);
  EXPECT_TRUE(fails_with(loaded.session.rewind(4), "a session cannot be rewound to row 4: 3 are in use"));
  EXPECT_TRUE(fails_with(loaded.session.rewind(-1), "a session cannot be rewound to row -1"));
  EXPECT_EQ(rows_of(loaded.session), 3);
  EXPECT_TRUE(succeeds(loaded.session.rewind(3)));
  auto stateless = make(embedding());
  EXPECT_TRUE(succeeds(stateless.session.rewind(0)));
  EXPECT_TRUE(fails_with(stateless.session.rewind(1), "row 1: 0 are in use"));
}

TEST_F(StateCopyTest, a_state_without_rows_is_rewound_to_its_beginning_only) {
  auto loaded = make(plain_sum(10));
  ASSERT_TRUE(succeeds(add(loaded.session)));
  ASSERT_TRUE(fails_with(loaded.session.rewind(1), "can only be rewound to row 0, not to 1, because its state"));
  EXPECT_EQ(add(loaded.session), (std::vector<float>{12, 13, 14}));
  ASSERT_TRUE(succeeds(loaded.session.rewind(0)));
  EXPECT_EQ(add(loaded.session), (std::vector<float>{11, 12, 13}));
}

TEST_F(StateCopyTest, a_reset_session_is_like_a_new_one) {
  auto sums = make(plain_sum(10));
  ASSERT_TRUE(succeeds(add(sums.session)));
  ASSERT_TRUE(succeeds(sums.session.reset()));
  EXPECT_EQ(add(sums.session), (std::vector<float>{11, 12, 13}));
  for (const auto& form : kForms) {
    auto loaded = make(cached(form, 0.5F), form.options());
    auto fresh = make(cached(form, 0.5F), form.options());
    walk(loaded.session, form, 0, 20, 3);
    ASSERT_TRUE(succeeds(loaded.session.reset()));
    EXPECT_EQ(rows_of(loaded.session), 0);
    // It sees the rows before it, which nobody filled.
    EXPECT_EQ(step(loaded.session, form, 15), step(fresh.session, form, 15));
  }
}

TEST_F(StateCopyTest, a_saved_state_is_restored_in_another_session) {
  for (const auto& form : kForms) {
    auto loaded = make(cached(form), form.options());
    walk(loaded.session, form, 0, 7);
    ASSERT_TRUE(succeeds(loaded.session.save(path)));
    EXPECT_EQ(files(), 1U);
    auto other = make(cached(form), form.options());
    walk(other.session, form, 0, 30, 9);
    ASSERT_TRUE(succeeds(other.session.restore(path)));
    EXPECT_EQ(rows_of(other.session), 7);
    for (std::int64_t at = 7; at < 10; ++at) {
      EXPECT_EQ(step(other.session, form, at), step(loaded.session, form, at));
    }
    ASSERT_TRUE(succeeds(loaded.session.restore(path)));
    EXPECT_EQ(rows_of(loaded.session), 7);
  }
  auto sums = make(plain_sum(10));
  ASSERT_TRUE(succeeds(add(sums.session)));
  ASSERT_TRUE(succeeds(sums.session.save(path)));
  auto other = make(plain_sum(10));
  ASSERT_TRUE(succeeds(other.session.restore(path)));
  EXPECT_EQ(add(other.session), (std::vector<float>{12, 13, 14}));
}

TEST_F(StateCopyTest, only_rows_in_use_are_saved) {
  const CacheForm form;
  auto loaded = make(cached(form));
  ASSERT_TRUE(succeeds(loaded.session.save(path)));
  const auto empty = saved().size();
  walk(loaded.session, form, 0, 3);
  ASSERT_TRUE(succeeds(loaded.session.save(path)));
  EXPECT_EQ(saved().size(), empty + 2 * 3 * form.step() * 4);
}

TEST_F(StateCopyTest, a_state_larger_than_a_piece_is_saved_and_restored) {
  constexpr std::int64_t kMany = 3'000'001;  // 12 MB
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {kMany});
  const int sum = b.constant(DType::f32, {kMany}, std::vector<float>(kMany), {.mem_obj = 0});
  b.op("aten.add.Tensor", {sum, x, b.integer(1), sum});
  const int out = b.tensor(DType::f32, {kMany});
  b.op("aten.add.Tensor", {sum, x, b.integer(0), out});
  b.inputs({x});
  b.outputs({out});
  auto loaded = make(b);
  std::vector<float> numbers(kMany);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 1000);
  const auto in = tensor(DType::f32, {kMany}, numbers);
  ASSERT_TRUE(succeeds(call<float>(loaded.session, {in}, DType::f32)));
  ASSERT_TRUE(succeeds(loaded.session.save(path)));
  ASSERT_TRUE(succeeds(loaded.session.reset()));
  ASSERT_TRUE(succeeds(loaded.session.restore(path)));
  const auto twice = call<float>(loaded.session, {in}, DType::f32);
  ASSERT_TRUE(succeeds(twice));
  for (std::size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ((*twice)[i], 2 * numbers[i]) << i;
}

TEST_F(StateCopyTest, a_state_of_another_program_weights_or_layout_is_refused) {
  const CacheForm form;
  auto loaded = make(cached(form));
  walk(loaded.session, form, 0, 3);
  ASSERT_TRUE(succeeds(loaded.session.save(path)));
  auto half = make(cached(form), CacheForm{.half = true}.options());
  EXPECT_TRUE(fails_with(half.session.restore(path),
                         "state' was saved with another layout: its state 0 is not key_cache "
                         "of type float16 and shape [1, 40, 4, 8] as here"));
  auto wider = make(cached({.width = 16}));
  const auto refused = wider.session.restore(path);
  EXPECT_TRUE(fails_with(refused, "was saved by another program"));
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  auto sums = make(plain_sum(10));
  ASSERT_TRUE(succeeds(sums.session.save(path)));
  auto heavier = make(plain_sum(10, 2));
  ASSERT_TRUE(succeeds(add(heavier.session)));
  EXPECT_TRUE(fails_with(heavier.session.restore(path), "was saved by a program with other weights"));
  EXPECT_EQ(add(heavier.session), (std::vector<float>{14, 15, 16})) << "what is refused changes nothing";
}

TEST_F(StateCopyTest, a_file_that_is_cut_or_changed_is_refused_and_changes_nothing) {
  auto loaded = make(plain_sum(10));
  ASSERT_TRUE(succeeds(add(loaded.session)));
  ASSERT_TRUE(succeeds(loaded.session.save(path)));
  const auto whole = saved();
  for (std::size_t length = 0; length < whole.size(); length += 5) {
    replace(whole.substr(0, length));
    EXPECT_FALSE(loaded.session.restore(path)) << length;
  }
  for (std::size_t at = 0; at < whole.size(); at += 5) {
    auto changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x40);
    replace(changed);
    EXPECT_FALSE(loaded.session.restore(path)) << at;
  }
  replace(whole + '\0');
  EXPECT_TRUE(fails_with(loaded.session.restore(path), "is cut off or was added to"));
  EXPECT_EQ(add(loaded.session), (std::vector<float>{12, 13, 14}));
  replace(whole);
  ASSERT_TRUE(succeeds(loaded.session.restore(path)));
  EXPECT_EQ(add(loaded.session), (std::vector<float>{12, 13, 14}));
}

TEST_F(StateCopyTest, a_file_that_cannot_be_written_or_read_is_an_error) {
  auto loaded = make(plain_sum(10));
  EXPECT_TRUE(fails_with(loaded.session.save(folder / "none" / "state"), "cannot be written: No such file"));
  EXPECT_TRUE(fails_with(loaded.session.save(folder), "cannot be written"));
  EXPECT_TRUE(fails_with(loaded.session.save(std::string("a\0b", 3)), "has a NUL in it"));
  EXPECT_TRUE(fails_with(loaded.session.restore(path), "cannot be opened: No such file"));
  EXPECT_TRUE(fails_with(loaded.session.restore(folder), "is a folder"));
  EXPECT_EQ(files(), 0U) << "nothing is left";
}

TEST_F(StateCopyTest, a_session_whose_state_could_not_be_replaced_says_so_until_it_is) {
  auto loaded = make(plain_sum(10));
  ASSERT_TRUE(succeeds(loaded.session.save(path)));
  set_stop_check([] { return true; });
  const auto stopped = loaded.session.restore(path);
  set_stop_check(nullptr);
  ASSERT_TRUE(fails_with(stopped, "cancelled"));
  constexpr std::string_view kIncomplete = "this session's state is incomplete";
  EXPECT_TRUE(fails_with(add(loaded.session), kIncomplete));
  EXPECT_TRUE(fails_with(loaded.session.fork(), kIncomplete));
  EXPECT_TRUE(fails_with(loaded.session.rewind(0), kIncomplete));
  EXPECT_TRUE(fails_with(loaded.session.save(path), kIncomplete));
  ASSERT_TRUE(succeeds(loaded.session.restore(path)));
  EXPECT_EQ(add(loaded.session), (std::vector<float>{11, 12, 13}));
  set_stop_check([] { return true; });
  EXPECT_TRUE(fails_with(loaded.session.reset(), "cancelled"));
  EXPECT_TRUE(fails_with(loaded.session.save(path), kIncomplete));
  set_stop_check(nullptr);
  ASSERT_TRUE(succeeds(loaded.session.reset()));
  EXPECT_EQ(add(loaded.session), (std::vector<float>{11, 12, 13}));
}

TEST_F(StateCopyTest, none_of_this_happens_while_a_call_is_in_flight) {
  constexpr std::string_view kInFlight = "a call of this session is in flight: wait for it first";
  auto loaded = make(plain_sum(10));
  ASSERT_TRUE(succeeds(loaded.session.save(path)));
  const std::vector<float> ones(3, 1);
  std::vector<float> out(3);
  const HostTensor in = tensor(DType::f32, {3}, ones);
  const HostOutput to{DType::f32, out.data(), 12};
  ASSERT_TRUE(succeeds(loaded.session.set_inputs({&in, 1})));
  ASSERT_TRUE(succeeds(loaded.session.submit({&to, 1})));
  EXPECT_TRUE(fails_with(loaded.session.rewind(0), kInFlight));
  EXPECT_TRUE(fails_with(loaded.session.reset(), kInFlight));
  EXPECT_TRUE(fails_with(loaded.session.fork(), kInFlight));
  EXPECT_TRUE(fails_with(loaded.session.save(path), kInFlight));
  EXPECT_TRUE(fails_with(loaded.session.restore(path), kInFlight));
  ASSERT_TRUE(succeeds(loaded.session.wait()));
  EXPECT_EQ(out, (std::vector<float>{11, 12, 13}));
}

TEST_F(StateCopyTest, the_c_api_does_all_of_it) {
  auto loaded = make(plain_sum(10));
  ASSERT_TRUE(succeeds(add(loaded.session)));
  nibble_session session{loaded.model, loaded.session, {}, {}, {}, {}};
  ASSERT_TRUE(nibble_session_save(&session, path.c_str())) << nibble_error();
  nibble_session* forked = nibble_session_fork(&session);
  ASSERT_NE(forked, nullptr) << nibble_error();
  ASSERT_TRUE(nibble_session_reset(&session)) << nibble_error();
  ASSERT_TRUE(nibble_session_rewind(&session, 0)) << nibble_error();
  EXPECT_FALSE(nibble_session_rewind(&session, 2));
  EXPECT_EQ(add(session.session), (std::vector<float>{11, 12, 13}));
  EXPECT_EQ(add(forked->session), (std::vector<float>{12, 13, 14}));
  ASSERT_TRUE(nibble_session_restore(&session, path.c_str())) << nibble_error();
  EXPECT_EQ(add(session.session), (std::vector<float>{12, 13, 14}));
  nibble_session_free(forked);
  EXPECT_FALSE(nibble_session_restore(&session, nullptr));
  EXPECT_STREQ(nibble_error(), "the path is null");
  EXPECT_EQ(nibble_session_fork(nullptr), nullptr);
  EXPECT_STREQ(nibble_error(), "the session is null");
}

}  // namespace
}  // namespace nibble::test
