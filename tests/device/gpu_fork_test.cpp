// A child that was forked after the GPU was used.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <thread>

#include "gpu_fixture.hpp"
#include "nibble/generate.hpp"
#include "nibble/nibble.h"
#include "support/small_programs.hpp"

namespace nibble::test {
namespace {

const pid_t parent = getpid();

/// As what a driver does at exit: it waits for a thread that a child does not have. It comes before the first device.
[[maybe_unused]] const int waits_at_exit = std::atexit([] {
  while (getpid() != parent) pause();
});

/// Runs `body` in a child and gives its exit code. A child that hangs is ended by a signal, which gives -1.
template <class Body>
int in_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    body();
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class GpuForkTest : public GpuTest {
 protected:
  /// How many calls do not fail as they should.
  int wrong_calls(Loaded& loaded, const BlobBuilder& builder) {
    const auto is_right = [](const auto& result) {
      return !result && result.error().message.starts_with("this process was forked from one");
    };
    std::vector<std::int32_t> ids = {3, 49};
    const std::vector inputs = {tensor(DType::i32, {1, 2}, ids)};
    const Device same = device;
    const auto lost = same.lost();
    int wrong = 0;
    for (const bool right :
         {is_right(devices()), is_right(Device::open()), is_right(load(builder)), is_right(loaded.model.session()),
          is_right(loaded.model.run(inputs)), is_right(loaded.session.run(inputs)),
          is_right(loaded.session.execute({})), is_right(loaded.session.profile({})),
          is_right(Model::load(device, "/no/such/file")), lost.has_value(), is_right(loaded.session.states()),
          same.live_objects() == 0, same.compiled_pipelines() == 0, !nibble_check_process(),
          nibble_devices_json(nullptr) == nullptr, nibble_device_open("", nullptr) == nullptr}) {
      if (!right) ++wrong;
    }
    return wrong;
  }
};

TEST_F(GpuForkTest, every_call_of_a_child_fails_and_both_exits_work) {
  const auto builder = embedding();
  auto loaded = load(builder);
  ASSERT_TRUE(succeeds(loaded));
  EXPECT_EQ(in_child([&] { _exit(wrong_calls(*loaded, builder)); }), 0);
  EXPECT_EQ(in_child([&] { std::exit(wrong_calls(*loaded, builder)); }), 0);
  // Destroying what was inherited does nothing.
  EXPECT_EQ(in_child([&] {
              loaded = fail(ErrorCode::internal, "gone");
              opened_ = fail(ErrorCode::internal, "gone");
              std::exit(0);
            }),
            0);
  std::vector<std::int32_t> ids = {3, 49};
  const auto rows = call<float>(loaded->session, {tensor(DType::i32, {1, 2}, ids)}, DType::f32);
  ASSERT_TRUE(succeeds(rows));
  EXPECT_TRUE(are_rows(*rows, ids));
}

TEST_F(GpuForkTest, a_child_waits_for_no_thread_that_was_in_a_call) {
  const auto builder = embedding();
  auto loaded = load(builder);
  ASSERT_TRUE(succeeds(loaded));
  std::atomic<bool> done = false;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      std::vector<std::int32_t> ids = {3, 49};
      while (!done) {
        EXPECT_TRUE(succeeds(loaded->model.run(std::vector{tensor(DType::i32, {1, 2}, ids)})));
        EXPECT_TRUE(succeeds(load(builder)));
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(in_child([&] { std::exit(wrong_calls(*loaded, builder)); }), 0);
  }
  done = true;
}

TEST_F(GpuForkTest, a_generator_of_a_child_fails_and_is_left_as_it_is) {
  auto loaded = load(next_token_blob(std::vector<float>(100), 4, 16));
  ASSERT_TRUE(succeeds(loaded));
  std::optional<Generator> generator = Generator::make(loaded->model).value();
  const std::vector<std::int32_t> prompt = {1, 2};
  ASSERT_TRUE(succeeds(generator->start(prompt, {})));
  ASSERT_TRUE(succeeds(generator->next()));
  const auto objects = device.live_objects();
  EXPECT_EQ(in_child([&] {
              const auto is_forked = [](const auto& result) {
                return !result && result.error().message.starts_with("this process was forked from one");
              };
              const bool is_right = is_forked(generator->next()) && is_forked(generator->start(prompt, {})) &&
                                    is_forked(generator->stats()) && is_forked(generator->tokens()) &&
                                    is_forked(generator->stop()) && is_forked(generator->fork());
              generator->cancel();
              generator.reset();
              std::exit(is_right ? 0 : 1);
            }),
            0);
  EXPECT_EQ(device.live_objects(), objects);
  ASSERT_TRUE(succeeds(generator->next()));
}

}  // namespace
}  // namespace nibble::test
