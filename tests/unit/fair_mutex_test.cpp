#include "gpu/fair_mutex.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace nibble::gpu {
namespace {

TEST(FairMutex, goes_to_who_waits_though_another_wants_it_again_at_once) {
  // std::mutex goes to the thread that has just given it back nearly always: the other one has to wake first.
  constexpr int kRounds = 20;
  int went = 0;
  for (int round = 0; round < kRounds; ++round) {
    FairMutex mutex;
    std::atomic<bool> wants = false;
    std::atomic<bool> had = false;
    mutex.lock();
    std::thread other([&] {
      wants = true;
      wants.notify_one();
      mutex.lock();
      had = true;
      mutex.unlock();
    });
    wants.wait(false);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // until it waits, but for a round in which it is kept
    mutex.unlock();
    mutex.lock();
    went += had ? 1 : 0;
    mutex.unlock();
    other.join();
  }
  EXPECT_GT(went, kRounds / 2);
}

}  // namespace
}  // namespace nibble::gpu
