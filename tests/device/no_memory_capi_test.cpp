// The C API where each allocation of Nibble fails once: no call ends the process, and the next one is right.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gpu_fixture.hpp"
#include "nibble/generate.h"
#include "nibble/nibble.h"
#include "support/pte_builder.hpp"
#include "support/small_programs.hpp"
#include "sweep.hpp"

namespace nibble::test {
namespace {

namespace fs = std::filesystem;

/// The error of the C API, unless `done`.
Status told(bool done) {
  if (done) return {};
  allocations.counting = false;
  return std::unexpected(Error{static_cast<ErrorCode>(nibble_error_code()), nibble_error()});
}

Status equal(double got, double wanted) {
  return got == wanted ? Status() : fail(ErrorCode::internal, "{} instead of {}", got, wanted);
}

template <class T>
using Owned = std::unique_ptr<T, void (*)(T*) noexcept>;

/// The fixture holds the device: to open it again takes no time.
class CapiNoMemory : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  void write(const BlobBuilder& program) const {
    const Bytes file = make_pte(program, {.dynamic = true});
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  }
  static Owned<nibble_device> open() { return {nibble_device_open(nullptr, nullptr), nibble_device_free}; }
  Owned<nibble_model> load(nibble_device* on, const nibble_load_options* options = nullptr) const {
    return {nibble_model_load(on, path.c_str(), options), nibble_model_free};
  }

  const fs::path folder = fs::temp_directory_path() / fmt::format("nibble-capi-no-memory-{}", ::getpid());
  const std::string path = folder / "program.pte";
  const std::string state = folder / "session.state";
};

template <class T>
nibble_tensor input_of(nibble_dtype dtype, const Shape& shape, const std::vector<T>& values) {
  nibble_tensor tensor{};
  tensor.dtype = dtype;
  tensor.rank = static_cast<std::uint32_t>(shape.rank());
  std::ranges::copy(shape, tensor.shape);
  tensor.data = const_cast<T*>(values.data());
  tensor.bytes = values.size() * sizeof(T);
  return tensor;
}

TEST_F(CapiNoMemory, every_call_of_models_gives_errors) {
  const std::vector<std::int64_t> ids = {3, 49, 0, 7};
  write(embedding());
  std::vector<float> rows(ids.size() * kWidth);
  const auto use_all = [&]() -> Status {
    TRY(told(nibble_devices_json(nullptr) != nullptr));
    const auto opened = open();
    TRY(told(opened != nullptr));
    const auto model = load(opened.get());
    TRY(told(model != nullptr));
    const nibble_tensor in = input_of(NIBBLE_INT64, {2, 2}, ids);
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
    if (!are_rows(rows, ids)) return fail(ErrorCode::internal, "wrong");
    TRY(told(nibble_session_states_json(session.get()) != nullptr));
    TRY(told(nibble_check_node(R"({"op": "aten.relu.default", "arguments": [{"dtype": "float32", "shape": [2]}],
                                   "out": {"dtype": "float32", "shape": [2]}})")));
    // A refusal has a message, which takes memory too.
    if (nibble_model_run(model.get(), nullptr, 0, &out, 1)) return fail(ErrorCode::internal, "no inputs were taken");
    return told(nibble_error_code() == static_cast<int>(ErrorCode::invalid_argument));
  };
  sweep(use_all, 150);
}

TEST_F(CapiNoMemory, every_call_of_sessions_and_traces_gives_errors) {
  BlobBuilder b;
  const int x = b.tensor(DType::f32, {3});
  const int sum = b.constant(DType::f32, {3}, std::vector<float>{1, 2, 3}, {.mem_obj = 0});
  b.op("aten.add.Tensor", {sum, x, b.integer(1), sum});
  const int out = b.tensor(DType::f32, {3});
  b.op("aten.add.Tensor", {sum, x, b.integer(0), out});
  b.inputs({x});
  b.outputs({out});
  write(b);
  const std::vector<float> ones(3, 1);
  std::vector<float> sums(3);
  const nibble_tensor in = input_of(NIBBLE_FLOAT32, {3}, ones);
  const nibble_tensor to = input_of(NIBBLE_FLOAT32, {3}, sums);
  const auto call = [&](nibble_session* session, float wanted) -> Status {
    TRY(told(nibble_session_set_inputs(session, &in, 1)));
    TRY(told(nibble_session_submit(session, &to, 1)));
    TRY(told(nibble_session_wait(session)));
    return equal(sums[0], wanted);
  };
  for (const bool is_staged : {false, true}) {
    const auto use_all = [&]() -> Status {
      const auto opened = open();
      TRY(told(opened != nullptr));
      const Owned<nibble_trace> trace(nibble_device_start_trace(opened.get()), nibble_trace_free);
      TRY(told(trace != nullptr));
      nibble_load_options options{};
      options.staged = is_staged ? 1 : 0;
      const auto model = load(opened.get(), &options);
      TRY(told(model != nullptr));
      const Owned<nibble_session> session(nibble_model_session(model.get()), nibble_session_free);
      TRY(told(session != nullptr));
      TRY(call(session.get(), 2));
      const Owned<nibble_session> forked(nibble_session_fork(session.get()), nibble_session_free);
      TRY(told(forked != nullptr));
      TRY(call(forked.get(), 3));
      TRY(told(nibble_session_save(forked.get(), state.c_str())));
      TRY(told(nibble_session_reset(forked.get())));
      TRY(call(forked.get(), 2));
      TRY(told(nibble_session_rewind(forked.get(), 0)));
      TRY(told(nibble_session_restore(session.get(), state.c_str())));
      TRY(call(session.get(), 4));
      return told(nibble_trace_stop(trace.get()) != nullptr);
    };
    sweep(use_all, 100);
  }
}

TEST_F(CapiNoMemory, every_call_of_generators_gives_errors) {
  constexpr std::int32_t kWords = 40;
  const auto after = [](std::int32_t token) { return (token * 7 + 3) % kWords; };
  std::vector<float> table;
  for (std::int32_t i = 0; i < kWords * kWords; ++i) table.push_back(i % kWords == after(i / kWords) ? 4.0F : 0.0F);
  write(next_token_blob(table, 4, 64));
  const std::vector<std::int32_t> prompt(6, 5);
  // All of the test's own memory comes before the calls: what fails in them shall be Nibble's.
  auto longer = prompt;
  longer.push_back(after(5));
  std::vector<std::int32_t> tokens(16);
  nibble_token token{};
  const auto next = [&](nibble_generator* generator, std::int32_t before) -> Status {
    TRY(told(nibble_generator_next(generator, nullptr, 0, &token) == 1));
    return equal(token.id, after(before));
  };
  const auto use_all = [&]() -> Status {
    const auto opened = open();
    TRY(told(opened != nullptr));
    nibble_load_options options{};
    options.candidates = 8;
    const auto model = load(opened.get(), &options);
    TRY(told(model != nullptr));
    const Owned<nibble_generator> one(nibble_generator_make(model.get()), nibble_generator_free);
    TRY(told(one != nullptr));
    TRY(told(nibble_generator_json(one.get()) != nullptr));
    TRY(told(nibble_generator_start(one.get(), prompt.data(), prompt.size(),
                                    R"({"max_tokens": 9, "logprobs": true, "top_logprobs": 2})")));
    TRY(told(nibble_generator_prefill(one.get()) == 1));
    TRY(next(one.get(), 5));
    const auto first = token.id;
    TRY(equal(static_cast<double>(token.top_count), 2));
    const Owned<nibble_generator> other(nibble_generator_fork(one.get()), nibble_generator_free);
    TRY(told(other != nullptr));
    TRY(next(one.get(), first));
    TRY(told(nibble_generator_start(other.get(), longer.data(), longer.size(), "{}")));
    TRY(next(other.get(), first));
    TRY(told(nibble_generator_stats_json(one.get()) != nullptr));
    TRY(told(nibble_generator_tokens(one.get(), tokens.data(), tokens.size()) >= 0));
    TRY(told(nibble_generator_save(one.get(), state.c_str())));
    TRY(told(nibble_generator_stop(one.get())));
    TRY(told(nibble_generator_rewind(one.get(), 2)));
    TRY(told(nibble_generator_restore(other.get(), state.c_str())));
    TRY(told(nibble_generator_start(other.get(), prompt.data(), prompt.size(), "{}")));
    TRY(next(other.get(), 5));
    const std::string ends = "and";
    const char* stop = ends.c_str();
    const auto length = ends.size();
    const Owned<nibble_text> text(nibble_text_make(&stop, &length, 1), nibble_text_free);
    TRY(told(text != nullptr));
    std::size_t bytes = 0;
    TRY(told(nibble_text_push(text.get(), "sand", 4, &bytes) != nullptr));
    TRY(told(nibble_text_finish(text.get(), &bytes) != nullptr));
    return equal(static_cast<double>(nibble_text_stop(text.get())), 0);
  };
  sweep(use_all, 100);
}

TEST_F(CapiNoMemory, tuning_gives_errors) {
  write(embedding());
  const std::string tuning = folder / "tuning.json";
  const auto use_all = [&]() -> Status {
    const auto opened = open();
    TRY(told(opened != nullptr));
    nibble_load_options options{};
    options.tune_ms = 1;  // it ends after its first case: its allocations are swept where they are made
    return told(nibble_tune_json(opened.get(), path.c_str(), &options, tuning.c_str()) != nullptr);
  };
  sweep(use_all, 50);
}

}  // namespace
}  // namespace nibble::test
