// Everything at once on one device, from many threads: what ThreadSanitizer watches (./test tsan).
#include <atomic>
#include <barrier>
#include <functional>
#include <thread>

#include "gpu_fixture.hpp"
#include "nibble/nibble.h"

namespace nibble::test {
namespace {

constexpr int kRounds = 15;

class ThreadsTest : public GpuTest {
 protected:
  /// Runs all at once, each a number of times on a thread of its own. Each says whether all is well.
  static void at_once(std::vector<std::function<bool()>> works) {
    std::barrier start(static_cast<std::ptrdiff_t>(works.size()));
    std::vector<std::atomic<int>> wrong(works.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < works.size(); ++i) {
        threads.emplace_back([&, i] {
          start.arrive_and_wait();
          for (int round = 0; round < kRounds; ++round) wrong[i] += works[i]() ? 0 : 1;
        });
      }
    }
    for (std::size_t i = 0; i < works.size(); ++i) EXPECT_EQ(wrong[i], 0) << "work " << i;
  }

  static bool is_right(const Result<std::vector<HostArray>>& outputs, const std::vector<std::int64_t>& ids) {
    if (!outputs) return false;
    const auto values = outputs->front().as<float>();
    return static_cast<bool>(are_rows({values.begin(), values.end()}, ids));
  }
};

TEST_F(ThreadsTest, sessions_loads_and_frees_of_one_model_at_once) {
  const auto builder = embedding();
  const auto loaded = load(builder);
  ASSERT_TRUE(succeeds(loaded));
  const auto objects = device.live_objects();
  const Model model = loaded->model;
  const std::vector<std::int64_t> ids = {3, 49, 7};
  const HostTensor input = tensor(DType::i64, {1, 3}, ids);
  const auto run = [&] { return is_right(model.run({&input, 1}), ids); };
  // A session that is made, used and freed; one that is kept; a model that comes and goes.
  const auto borrow = [&] {
    auto session = model.session();
    return session && is_right(session->run({&input, 1}), ids);
  };
  const auto keep = [&] {
    return [&, session = model.session()]() mutable {
      return session && is_right(session->run({&input, 1}), ids) && session->states()->empty();
    };
  };
  const auto reload = [&] {
    auto again = load(builder);
    return again && is_right(again->session.run({&input, 1}), ids);
  };
  const auto look = [&] {
    const auto same = Device::open();
    return same && !same->lost() && same->live_objects() > 0 && same->compiled_pipelines() > 0;
  };
  const auto list = [] {
    const auto all = devices();
    return all && !all->empty();
  };
  at_once({run, run, borrow, borrow, keep(), keep(), reload, reload, look, list});
  // What remains is the model's own session.
  EXPECT_LE(device.live_objects(), objects + 20);
}

TEST_F(ThreadsTest, the_last_holder_frees_a_model_wherever_it_is) {
  const auto builder = embedding();
  const auto objects = device.live_objects();
  const std::vector<std::int64_t> ids = {3, 49, 7};
  const HostTensor input = tensor(DType::i64, {1, 3}, ids);
  for (int round = 0; round < kRounds; ++round) {
    auto loaded = load(builder);
    ASSERT_TRUE(succeeds(loaded));
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      // Each has its own handles, and lets go of them when it is done.
      threads.emplace_back([model = loaded->model, &input, &ids] {
        auto session = model.session();
        EXPECT_TRUE(session && is_right(session->run({&input, 1}), ids));
        EXPECT_TRUE(is_right(model.run({&input, 1}), ids));
      });
    }
    loaded = fail(ErrorCode::internal, "let go");
  }
  EXPECT_EQ(device.live_objects(), objects);
}

TEST_F(ThreadsTest, a_device_is_opened_and_freed_by_many) {
  at_once(std::vector<std::function<bool()>>(6, [] {
    nibble_device* one = nibble_device_open("", nullptr);
    const bool is_there =
        one != nullptr && nibble_device_json(one) != nullptr && nibble_devices_json(nullptr) != nullptr;
    nibble_device_free(one);
    return is_there;
  }));
}

}  // namespace
}  // namespace nibble::test
