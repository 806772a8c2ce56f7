#include "cli/interrupt.hpp"

#include <atomic>

#include "nibble/nibble.hpp"

namespace nibble::cli {
namespace {

std::atomic<bool> is_interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set it");

}  // namespace

StopAtInterrupt::StopAtInterrupt() {
  is_interrupted = false;
  struct sigaction action{};
  action.sa_handler = [](int) { is_interrupted = true; };
  // The next one finds the default again.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, nullptr, &before_);
  // Whoever starts a command that shall not be interrupted says so in this way.
  if (before_.sa_handler != SIG_IGN) sigaction(SIGINT, &action, nullptr);
  set_stop_check([] { return is_interrupted.load(); });
}

StopAtInterrupt::~StopAtInterrupt() {
  set_stop_check(nullptr);
  sigaction(SIGINT, &before_, nullptr);
}

Status StopAtInterrupt::check() {
  if (!is_interrupted) return {};
  return fail(ErrorCode::cancelled, "the run was cancelled between two calls");
}

}  // namespace nibble::cli
