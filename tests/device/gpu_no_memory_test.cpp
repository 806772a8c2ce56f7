// Each allocation of Nibble fails once: no call ends the process, and the next one is right.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gpu_fixture.hpp"
#include "graph/guarded.hpp"
#include "nibble/nibble.h"
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

/// The error of the C API, unless `done`.
Status told(bool done) {
  if (done) return {};
  allocations.counting = false;
  return std::unexpected(Error{static_cast<ErrorCode>(nibble_error_code()), nibble_error()});
}

template <class T>
using Owned = std::unique_ptr<T, void (*)(T*) noexcept>;

// The fixture holds the device: to open it again takes no time.
TEST_F(GpuTest, the_c_api_without_memory_gives_errors) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("nibble-no-memory-{}.pte", ::getpid());
  {
    const Bytes file = make_pte(embedding(), {.dynamic = true});
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  }
  std::vector<float> rows(kIds.size() * kWidth);
  const auto use_all = [&]() -> Status {
    TRY(told(nibble_devices_json(nullptr) != nullptr));
    const Owned<nibble_device> opened(nibble_device_open(nullptr, nullptr), nibble_device_free);
    TRY(told(opened != nullptr));
    const Owned<nibble_model> model(nibble_model_load(opened.get(), path.c_str(), nullptr), nibble_model_free);
    TRY(told(model != nullptr));
    nibble_tensor in{};
    in.dtype = NIBBLE_INT64;
    in.rank = 2;
    in.shape[0] = in.shape[1] = 2;
    in.data = const_cast<std::int64_t*>(kIds.data());
    in.bytes = kIds.size() * 8;
    nibble_tensor out{};
    TRY(told(nibble_model_run(model.get(), &in, 1, &out, 1)));
    if (static_cast<const float*>(out.data)[kWidth + 3] != embedded(49, 3)) return fail(ErrorCode::internal, "wrong");
    const Owned<nibble_session> session(nibble_model_session(model.get()), nibble_session_free);
    TRY(told(session != nullptr));
    TRY(told(nibble_session_set_inputs(session.get(), &in, 1)));
    nibble_tensor to{};
    TRY(told(nibble_session_output(session.get(), 0, &to)));
    to.data = rows.data();
    to.bytes = rows.size() * 4;
    TRY(told(nibble_session_execute(session.get(), &to, 1)));
    if (!are_rows(rows, kIds)) return fail(ErrorCode::internal, "wrong");
    TRY(told(nibble_session_states_json(session.get()) != nullptr));
    TRY(told(nibble_check_node(R"({"op": "aten.relu.default", "arguments": [{"dtype": "float32", "shape": [2]}],
                                   "out": {"dtype": "float32", "shape": [2]}})")));
    // A refusal has a message, which takes memory too.
    if (nibble_model_run(model.get(), nullptr, 0, &out, 1)) return fail(ErrorCode::internal, "no inputs were taken");
    return told(nibble_error_code() == static_cast<int>(ErrorCode::invalid_argument));
  };
  sweep(use_all, 150);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace nibble::test
