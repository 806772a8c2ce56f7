// Each allocation of Nibble fails once: no call ends the process, and the next one is right.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gpu_fixture.hpp"
#include "graph/guarded.hpp"
#include "ops/registry.hpp"
#include "program/program.hpp"
#include "support/named_data.hpp"
#include "support/pte_builder.hpp"
#include "support/small_programs.hpp"
#include "sweep.hpp"

namespace nibble::test {
namespace {

const std::vector<std::int64_t> kIds = {3, 49, 0, 7};

/// Whether a call gives the rows of kIds.
Status call_embedding(Session& session) {
  TRY_ASSIGN(const auto results, session.run(std::array{tensor(DType::i64, {2, 2}, kIds)}));
  const auto* values = reinterpret_cast<const float*>(results[0].data.get());
  for (std::size_t i = 0; i < kIds.size() * kWidth; ++i) {
    if (values[i] != embedded(kIds[i / kWidth], static_cast<std::int64_t>(i % kWidth))) {
      return fail(ErrorCode::internal, "value {} is {}", i, values[i]);
    }
  }
  return {};
}

TEST_F(GpuTest, a_load_and_a_call_without_memory_are_errors) {
  const BlobBuilder program = embedding();
  const Bytes blob = program.finish();
  const auto load_and_call = [&]() -> Status {
    TRY_ASSIGN(auto loaded, load_blob(
                                device, blob, [](std::string_view) -> Result<std::uint64_t> { return 0; },
                                [&](std::span<const Constant> c) { return std::make_unique<BlobConstants>(blob, c); }));
    return call_embedding(loaded.session);
  };
  sweep(load_and_call, 400);
}

TEST_F(GpuTest, a_session_whose_call_had_no_memory_goes_on) {
  auto loaded = load(embedding());
  ASSERT_TRUE(succeeds(loaded));
  // In turn with another shape, so that every call is planned anew.
  const std::vector<std::int64_t> one = {5};
  const auto two_calls = [&]() -> Status {
    TRY(loaded->session.run(std::array{tensor(DType::i64, {1, 1}, one)}));
    return call_embedding(loaded->session);
  };
  sweep(two_calls, 400);
}

TEST_F(GpuTest, a_traced_call_without_memory_is_an_error_and_the_next_one_is_right) {
  auto loaded = load(embedding());
  ASSERT_TRUE(succeeds(loaded));
  const std::vector<std::int64_t> one = {5};
  const auto trace_calls = [&]() -> Status {
    (void)device.stop_trace();  // of a sweep that failed
    TRY(device.start_trace());
    TRY(loaded->session.run(std::array{tensor(DType::i64, {1, 1}, one)}));
    TRY(call_embedding(loaded->session));
    TRY_ASSIGN(const auto trace, device.stop_trace());
    TRY(chrome_trace(trace));
    return {};
  };
  sweep(trace_calls, 400);
}

TEST_F(GpuTest, a_tuning_without_memory_is_an_error_and_the_next_one_is_kept) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("nibble-untuned-{}.pte", ::getpid());
  const auto output = path.string() + ".json";
  const Bytes file = make_pte(embedding(), {.dynamic = true});
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  const std::string program = path;
  const TuneOptions options{{.tune_ms = 40}, output, {}};
  const auto tune_it = [&]() -> Status {
    TRY(tune(device, program, options));
    return {};
  };
  sweep(tune_it, 40);
  std::filesystem::remove(path);
  std::filesystem::remove(output);
}

TEST_F(GpuTest, a_state_that_is_moved_without_memory_can_be_reset) {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {3});
  const int sum = b.constant(DType::f32, {3}, std::vector<float>{1, 2, 3}, {.mem_obj = 0});
  b.op("aten.add.Tensor", {sum, x, b.integer(1), sum});
  const int out = b.tensor(DType::f32, {3});
  b.op("aten.add.Tensor", {sum, x, b.integer(0), out});
  b.inputs({x});
  b.outputs({out});
  auto loaded = load(b);
  ASSERT_TRUE(succeeds(loaded));
  const std::vector<float> ones(3, 1);
  const std::string path = std::filesystem::temp_directory_path() / fmt::format("nibble_no_memory_{}.state", getpid());
  const auto move = [&]() -> Status {
    Session& session = loaded->session;
    TRY(session.reset());
    TRY(session.run(std::array{tensor(DType::f32, {3}, ones)}));
    TRY_ASSIGN(auto forked, session.fork());
    TRY(forked.save(path));
    TRY(session.restore(path));
    TRY_ASSIGN(const auto results, session.run(std::array{tensor(DType::f32, {3}, ones)}));
    const float first = results[0].as<float>()[0];
    return first == 3 ? Status() : fail(ErrorCode::internal, "the sum is {}", first);
  };
  sweep(move, 100);
  std::filesystem::remove(path);
}

TEST_F(GpuTest, a_bad_index_without_memory_for_its_message_leaves_the_session_usable) {
  BlobBuilder b;
  const int ids = b.tensor(DType::i32, {2, 100});
  const int zero = b.constant(DType::i32, {1}, std::vector<std::int32_t>{0});
  const int same = b.tensor(DType::i32, {2, 100});
  b.op("aten.add.Tensor", {ids, zero, b.integer(1), same});  // so that the kernel finds it, not the host
  b.inputs({ids});
  b.outputs({add_embedding(b, same, {2, 100})});
  auto loaded = load(b);
  ASSERT_TRUE(succeeds(loaded));
  const std::vector<std::int64_t> bad = {3, 50, 0, 7};
  const auto bad_then_good = [&]() -> Status {
    const auto refused = loaded->session.run(std::array{tensor(DType::i64, {2, 2}, bad)});
    if (refused) return fail(ErrorCode::internal, "a bad index was taken");
    if (refused.error().code == ErrorCode::out_of_memory) return std::unexpected(refused.error());
    return call_embedding(loaded->session);
  };
  sweep(bad_then_good, 400);
}

TEST(NoMemory, reading_and_planning_without_memory_are_errors) {
  const Bytes file = make_pte(every_kind_blob(), {.dynamic = true});
  const auto read = [&]() -> Status {
    return guarded([&]() -> Status {
      TRY(read_program(file));
      return {};
    });
  };
  sweep(read, 400);
  const BlobBuilder program = cached_attention_blob(100);
  const Bytes blob = program.finish();
  const auto plan = [&]() -> Status {
    return guarded([&]() -> Status {
      TRY_ASSIGN(auto graph, read_blob(blob, sizes_of(program)));
      TRY_ASSIGN(auto made, Plan::make(std::move(graph), {}, {}, ops::registry()));
      Stepper stepper(made);
      return {};
    });
  };
  sweep(plan, 400);
}

TEST(NoMemory, opening_a_device_without_memory_is_an_error) {
  const Bytes blob = embedding().finish();
  const auto open_and_call = [&]() -> Status {
    TRY_ASSIGN(auto opened, Device::open());
    TRY_ASSIGN(auto loaded, load_blob(
                                opened, blob, [](std::string_view) -> Result<std::uint64_t> { return 0; },
                                [&](std::span<const Constant> c) { return std::make_unique<BlobConstants>(blob, c); }));
    return call_embedding(loaded.session);
  };
  sweep(open_and_call, 10);
}

}  // namespace
}  // namespace nibble::test
