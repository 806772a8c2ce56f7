// Lets each allocation of a call fail once.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "allocations.hpp"
#include "graph/status.hpp"
#include "support/expect.hpp"

namespace nibble::test {

#ifdef NIBBLE_NO_SWEEPS

template <class Run>
void sweep(const Run& /*run*/, long /*samples*/) {
  GTEST_SKIP() << "ThreadSanitizer has an operator new of its own";
}

#else

/// Gives what `run` gives while allocation `n` of it fails. An exception is no way out of a call.
template <class Run>
auto without(long n, const Run& run) {
  allocations = {.counting = true, .counted = 0, .fail_at = n};
  auto result = [&]() -> decltype(run()) {
    try {
      return run();
    } catch (const std::bad_alloc&) {
      allocations.counting = false;
      return fail(ErrorCode::internal, "an exception came out");
    }
  }();
  allocations.counting = false;
  allocations.fail_at = 0;
  return result;
}

/// `run` gives a Status. It must be a success or the error for too little memory, and a success in the next call. Tries
/// `samples` allocations, and all of them in the full suite. How many there are differs by a few from time to time
/// (names of files are longer, threads take other turns), so which of them are tried is chance: `run` allocates nothing
/// itself.
template <class Run>
void sweep(const Run& run, long samples) {
  ASSERT_TRUE(succeeds(without(0, run)));
  ASSERT_TRUE(succeeds(without(0, run)));  // what is made once and kept is there
  const long total = allocations.counted;
  const long step = std::getenv("NIBBLE_TEST_FULL") != nullptr ? 1 : std::max<long>(1, total / samples);
  long failed = 0;
  for (long n = 1; n <= total; n += step) {
    const Status status = without(n, run);
    if (!status) {
      ++failed;
      EXPECT_EQ(status.error().code, ErrorCode::out_of_memory)
          << n << " of " << total << ": " << status.error().message;
    }
    ASSERT_TRUE(succeeds(without(0, run))) << "after " << n << " of " << total;
  }
  EXPECT_GT(failed, 0);
  std::printf("    %ld allocations, every %ld-th failed: %ld errors\n", total, step, failed);
}

#endif

}  // namespace nibble::test
