#include "gpu/process.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace nibble::gpu {
namespace {

std::atomic<bool> is_in_use = false;
std::atomic<bool> is_child = false;

void on_fork() noexcept { is_child = is_in_use.load(); }

void leave(int status, void*) noexcept {
  if (!is_forked()) return;
  std::fflush(nullptr);
  _exit(status);
}

// At the library's load, not at the first use: another thread could fork in between.
[[maybe_unused]] const int registered_fork = pthread_atfork(nullptr, nullptr, on_fork);

}  // namespace

bool is_forked() noexcept { return is_child.load(std::memory_order_relaxed); }

Status check_process() {
  if (!is_forked()) return {};
  return fail(
      ErrorCode::gpu,
      "this process was forked from one that had used the GPU, and cannot use it: fork before the first use, or "
      "start the process anew (in Python, multiprocessing's \"spawn\")");
}

Status enter_process() {
  is_in_use = true;
  return check_process();
}

void exit_before_drivers() noexcept {
  // Drivers register what they do when they are loaded, or first used; whoever opens devices for ever needs no more.
  static std::atomic<int> left = 64;
  if (left.load() <= 0 || left.fetch_sub(1) <= 0) return;
  // If there is no memory for it, a child's exit is the driver's, as it would be without this.
  (void)on_exit(leave, nullptr);
}

}  // namespace nibble::gpu
