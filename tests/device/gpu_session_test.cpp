#include <cmath>
#include <thread>

#include "gpu_fixture.hpp"

namespace nibble::test {
namespace {

using Ids = std::vector<std::int64_t>;

class SessionTest : public LoadedTest {
 protected:
  /// The embedding of ids, shape [1, n].
  Result<std::vector<float>> rows(const Ids& ids) {
    const Shape shape{1, static_cast<std::int64_t>(ids.size())};
    return call<float>(loaded->session, {tensor(DType::i64, shape, ids)}, DType::f32);
  }
};

TEST_F(SessionTest, any_number_of_ids_runs_on_one_session) {
  session(embedding());
  for (const Ids& ids : {Ids{3}, Ids{}, Ids{1, 1, 49, 0}, Ids(100, 7), Ids{}, Ids{48}}) {
    const auto out = rows(ids);
    ASSERT_TRUE(succeeds(out));
    EXPECT_TRUE(are_rows(*out, ids)) << ids.size();
  }
}

TEST_F(SessionTest, int32_ids_are_taken_as_they_are) {
  session(embedding());
  const std::vector<std::int32_t> ids = {4, 0, 49, 2};
  const auto out = call<float>(loaded->session, {tensor(DType::i32, {2, 2}, ids)}, DType::f32);
  ASSERT_TRUE(succeeds(out));
  EXPECT_TRUE(are_rows(*out, ids));
  EXPECT_EQ(loaded->session.output_shape(0), (Shape{2, 2, kWidth}));
}

TEST_F(SessionTest, a_bad_id_is_named_and_the_next_call_is_right) {
  session(embedding());
  for (const std::int64_t bad : {std::int64_t{50}, std::int64_t{-1}, std::int64_t{1} << 32, std::int64_t{-1} << 40}) {
    const auto out = rows({1, bad, 3});
    ASSERT_TRUE(fails_with(out, fmt::format("[0, 1] is {}, but the table has 50 rows", bad)));
    EXPECT_EQ(out.error().code, ErrorCode::out_of_range);
    EXPECT_TRUE(fails_with(out, "et_vk.embedding_q4gsw"));
    EXPECT_TRUE(are_rows(*rows({5}), Ids{5}));
  }
  const std::vector<std::int32_t> narrow = {0, 51};
  EXPECT_TRUE(
      fails_with(call<float>(loaded->session, {tensor(DType::i32, {2, 1}, narrow)}, DType::f32), "[1, 0] is 51"));
}

TEST_F(SessionTest, a_bad_id_that_the_graph_computed_is_found_by_the_kernel) {
  BlobBuilder b;
  const int ids = b.tensor(DType::i32, {1, 100});
  const int one = b.constant(DType::i32, {1}, std::vector<std::int32_t>{1});
  const int next = b.tensor(DType::i32, {1, 100});
  b.op("aten.add.Tensor", {ids, one, b.integer(1), next});
  const int out = add_embedding(b, next, {1, 100});
  b.inputs({ids});
  b.outputs({out});
  session(b);
  EXPECT_TRUE(are_rows(*rows({0, 48}), Ids{1, 49}));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(fails_with(rows({0, 3, 49}), "[0, 2] is 50, but the table has 50 rows"));
    EXPECT_TRUE(fails_with(rows({-2}), "[0, 0] is -1, but the table has 50 rows"));
    EXPECT_TRUE(are_rows(*rows({7, 8}), Ids{8, 9}));
  }
}

TEST_F(SessionTest, wrong_inputs_are_named_by_number) {
  Session& s = session(embedding());
  const Ids ids(400);
  const std::vector<float> floats(4);
  const auto set = [&](std::vector<HostTensor> inputs) { return s.set_inputs(inputs); };
  EXPECT_TRUE(fails_with(set({}), "0 inputs are given, but the program takes 1"));
  EXPECT_TRUE(
      fails_with(set({tensor(DType::f32, {2, 2}, floats)}), "input 0 is float32, but the program takes int32 or"));
  EXPECT_TRUE(fails_with(set({tensor(DType::i64, {4}, ids)}), "input 0 has shape [4], but the program takes [2, 100]"));
  EXPECT_TRUE(fails_with(set({tensor(DType::i64, {2, 101}, ids)}),
                         "input 0 has shape [2, 101], but the program takes at most [2, 100]"));
  EXPECT_TRUE(fails_with(set({tensor(DType::i64, {-1, 4}, ids)}), "input 0 has shape [-1, 4]"));
  EXPECT_TRUE(fails_with(set({HostTensor{DType::i64, {1, 1}, nullptr, false, 0}}), "but no data"));
  EXPECT_TRUE(fails_with(set({HostTensor{DType::i64, {}, nullptr, true, 3}}), "input 0 is an integer"));
  EXPECT_TRUE(fails_with(s.execute({}), "the inputs must be set before every call"));
  ASSERT_TRUE(succeeds(set({tensor(DType::i64, {1, 2}, ids)})));
  std::vector<float> out(64);
  const HostOutput small{DType::f32, out.data(), 255};
  const HostOutput wrong{DType::i32, out.data(), 256};
  EXPECT_TRUE(fails_with(s.execute({}), "0 outputs are given, but the program has 1"));
  EXPECT_TRUE(fails_with(s.execute({&small, 1}), "output 0 has shape [1, 2, 32] and takes 256 bytes"));
  EXPECT_TRUE(fails_with(s.execute({&wrong, 1}), "output 0 is asked for as int32"));
  const HostOutput right{DType::f32, out.data(), 256};
  EXPECT_TRUE(succeeds(s.execute({&right, 1}))) << "a refused output does not use the inputs up";
  EXPECT_TRUE(fails_with(s.execute({&right, 1}), "the inputs must be set before every call"));
  ASSERT_TRUE(succeeds(set({tensor(DType::i64, {1, 2}, ids)})));
  EXPECT_FALSE(set({}));
  EXPECT_TRUE(fails_with(s.execute({&right, 1}), "setting them must succeed")) << "inputs that were refused leave none";
}

TEST_F(SessionTest, a_table_of_no_rows_has_no_row_for_a_computed_id) {
  BlobBuilder b;
  const int ids = b.tensor(DType::i32, {1, 3});
  const int one = b.constant(DType::i32, {1}, std::vector<std::int32_t>{1});
  const int next = b.tensor(DType::i32, {1, 3});
  b.op("aten.add.Tensor", {ids, one, b.integer(1), next});
  const int table = b.constant(DType::f32, {0, 4}, std::vector<float>{});
  const int out = b.tensor(DType::f32, {1, 3, 4});
  b.op("aten.embedding.default", {table, next, b.integer(-1), b.boolean(false), b.boolean(false), out});
  b.inputs({ids});
  b.outputs({out});
  session(b);
  EXPECT_TRUE(fails_with(rows({4, 5}), "is 5, but the table has 0 rows"));
  EXPECT_TRUE(succeeds(rows({})));
}

TEST_F(SessionTest, an_id_must_be_below_the_rows_that_a_table_has_in_this_call) {
  BlobBuilder b;
  const int table = b.tensor(DType::f32, {5, 4});
  const int ids = b.tensor(DType::i32, {3});
  const int out = b.tensor(DType::f32, {3, 4});
  b.op("aten.embedding.default", {table, ids, b.integer(-1), b.boolean(false), b.boolean(false), out});
  b.inputs({table, ids});
  b.outputs({out});
  Session& s = session(b);
  std::vector<float> elements(20);
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i);
  const auto look_up = [&](std::int64_t rows, std::vector<std::int64_t> given) {
    return call<float>(
        s,
        {tensor(DType::f32, {rows, 4}, elements), tensor(DType::i64, {static_cast<std::int64_t>(given.size())}, given)},
        DType::f32);
  };
  EXPECT_EQ(look_up(5, {4}), (std::vector<float>{16, 17, 18, 19}));
  // The rows of the call before are still in the table's buffer.
  EXPECT_TRUE(fails_with(look_up(2, {1, 4}), "indices[1] is 4, but the table has 2 rows"));
  EXPECT_TRUE(fails_with(look_up(2, {-1}), "indices[0] is -1, but the table has 2 rows"));
  EXPECT_TRUE(fails_with(look_up(5, {5}), "indices[0] is 5, but the table has 5 rows"));
  EXPECT_EQ(look_up(2, {1}), (std::vector<float>{4, 5, 6, 7}));
}

TEST_F(SessionTest, floats_are_converted_at_both_ends) {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {5});
  const int y = b.tensor(DType::f32, {5});
  b.op("aten.add.Tensor", {x, x, b.integer(1), y});
  b.inputs({x});
  b.outputs({y});
  Session& s = session(b);
  const std::vector<double> wide = {1, -2.5, 0, 1e-3, 65504};
  const auto doubles = call<double>(s, {tensor(DType::f64, {5}, wide)}, DType::f64);
  ASSERT_TRUE(succeeds(doubles));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ((*doubles)[i], 2 * static_cast<double>(static_cast<float>(wide[i])));
  const std::vector<std::uint16_t> halves = {0x3c00, 0xc100};
  const auto out = call<std::uint16_t>(s, {tensor(DType::f16, {2}, halves)}, DType::f16);
  ASSERT_TRUE(succeeds(out));
  EXPECT_EQ(*out, (std::vector<std::uint16_t>{0x4000, 0xc500}));
}

TEST_F(SessionTest, state_is_private_to_a_session_and_lasts_from_call_to_call) {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {3});
  const int sum = b.constant(DType::f32, {3}, std::vector<float>{10, 20, 30}, {.mem_obj = 0});
  b.op("aten.add.Tensor", {sum, x, b.integer(1), sum});
  const int out = b.tensor(DType::f32, {3});
  b.op("aten.add.Tensor", {sum, x, b.integer(0), out});
  b.inputs({x});
  b.outputs({out});
  Session& first = session(b);
  const auto other = load(b);
  ASSERT_TRUE(succeeds(other));
  Session second = other->session;
  const std::vector<float> ones = {1, 2, 3};
  for (int i = 1; i <= 3; ++i) {
    const auto got = call<float>(first, {tensor(DType::f32, {3}, ones)}, DType::f32);
    ASSERT_TRUE(succeeds(got));
    EXPECT_EQ(*got, (std::vector<float>{10.0F + i, 20.0F + 2 * i, 30.0F + 3 * i}));
  }
  EXPECT_EQ(*call<float>(second, {tensor(DType::f32, {3}, ones)}, DType::f32), (std::vector<float>{11, 22, 33}));
}

TEST_F(SessionTest, a_table_in_shards_gives_the_same_rows) {
  // The output is 256 bytes, the table 800 and its scales 400.
  session(embedding(1), {{.max_shard_bytes = 256}});
  for (std::int64_t id = 0; id < kRows; ++id) {
    const auto out = rows({id});
    ASSERT_TRUE(succeeds(out));
    EXPECT_TRUE(are_rows(*out, Ids{id}));
  }
  EXPECT_TRUE(fails_with(rows({50}), "is 50, but the table has 50 rows"));
}

TEST_F(SessionTest, progress_goes_to_the_end) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;
  session(embedding(), {{}, [&](std::uint64_t done, std::uint64_t all) { seen.emplace_back(done, all); }});
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back().first, static_cast<std::uint64_t>(kRows * kWidth / 2 + kRows * 2 * 4));
  EXPECT_EQ(seen.back().first, seen.back().second);
}

TEST_F(SessionTest, an_output_without_memory_is_skipped) {
  Session& s = session(embedding());
  const Ids ids = {1};
  const HostTensor in = tensor(DType::i64, {1, 1}, ids);
  ASSERT_TRUE(succeeds(s.set_inputs({&in, 1})));
  const HostOutput none;
  EXPECT_TRUE(succeeds(s.execute({&none, 1})));
}

TEST_F(SessionTest, profiling_tells_what_each_dispatch_took) {
  Session& s = session(embedding());
  const Ids ids(100, 3);
  const HostTensor in = tensor(DType::i64, {1, 100}, ids);
  ASSERT_TRUE(succeeds(s.set_inputs({&in, 1})));
  std::vector<float> out(100 * kWidth);
  const HostOutput to{DType::f32, out.data(), out.size() * 4};
  const auto times = s.profile({&to, 1});
  if (!device.info().timestamp_query) {
    EXPECT_TRUE(fails_with(times, "has no timestamp queries"));
    return;
  }
  ASSERT_TRUE(succeeds(times));
  ASSERT_EQ(times->size(), 1U);
  EXPECT_EQ((*times)[0].op, "et_vk.embedding_q4gsw.default");
  EXPECT_GT((*times)[0].microseconds, 0);
  EXPECT_TRUE(are_rows(out, ids));
}

TEST_F(SessionTest, loading_and_unloading_leaves_no_gpu_object) {
  const auto objects = device.live_objects();
  std::size_t compiled = 0;
  for (int i = 0; i < 25; ++i) {
    session(embedding());
    EXPECT_TRUE(are_rows(*rows({1, 2}), Ids{1, 2}));
    EXPECT_GT(device.live_objects(), objects);
    loaded.reset();
    EXPECT_EQ(device.live_objects(), objects);
    if (i == 0) compiled = device.compiled_pipelines();
    EXPECT_EQ(device.compiled_pipelines(), compiled) << "a second load compiles nothing";
  }
  BlobBuilder broken = embedding();
  const int y = broken.tensor(DType::f32, {1});
  broken.op("aten.no_such_op", {y, y});
  EXPECT_TRUE(fails_with(load(broken), "aten.no_such_op"));
  EXPECT_EQ(device.live_objects(), objects);
}

TEST_F(SessionTest, a_model_runs_in_a_session_of_its_own) {
  session(embedding());
  // A handle that was moved from is the same handle.
  const Model model = std::move(loaded->model);
  const Ids ids{3, 49};
  const auto input = tensor(DType::i64, {1, 2}, ids);
  for (const Model& same : {model, loaded->model}) {
    auto outputs = same.run({&input, 1});
    ASSERT_TRUE(succeeds(outputs));
    ASSERT_EQ(outputs->size(), 1U);
    const auto& out = outputs->front();
    EXPECT_EQ(out.dtype, DType::f32);
    EXPECT_EQ(out.shape, (Shape{1, 2, kWidth}));
    EXPECT_TRUE(are_rows({out.as<float>().begin(), out.as<float>().end()}, ids));
  }
  EXPECT_TRUE(fails_with(model.run({}), "0 inputs are given, but the program takes 1"));
  auto further = model.session();
  ASSERT_TRUE(succeeds(further));
  EXPECT_TRUE(succeeds(further->run({&input, 1})));
  EXPECT_EQ(further->output_shape(7), Shape{});
  EXPECT_EQ(further->output_int(7), 0);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const auto outputs = model.run({&input, 1});
        if (!outputs || outputs->front().shape != Shape{1, 2, kWidth}) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(SessionTest, a_second_thread_in_a_session_gets_an_error) {
  Session& shared = session(embedding());
  const Ids ids{3, 49};
  const auto input = tensor(DType::i64, {1, 2}, ids);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        auto outputs = shared.run({&input, 1});
        if (outputs ? outputs->front().shape != Shape{1, 2, kWidth}
                    : outputs.error().message != "another thread is using this session: give each thread its own") {
          ++wrong;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(are_rows(*rows(ids), ids)) << "the next call is right";
}

TEST_F(SessionTest, sessions_run_on_many_threads) {
  session(embedding());
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto mine = load(embedding());
      if (!mine) {
        ++wrong;
        return;
      }
      for (int i = 0; i < 50; ++i) {
        const Ids ids(static_cast<std::size_t>(1 + (i + t) % 5), (i * 7 + t) % kRows);
        const Shape shape{1, static_cast<std::int64_t>(ids.size())};
        const auto out = call<float>(mine->session, {tensor(DType::i64, shape, ids)}, DType::f32);
        if (!out || !are_rows(*out, ids)) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace nibble::test
