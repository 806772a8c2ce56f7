#include "gpu/stop.hpp"

#include "gpu/process.hpp"

namespace nibble::gpu {
namespace {

thread_local bool (*stop_check)() = nullptr;

}  // namespace

void set_stop_check(bool (*check)()) noexcept { stop_check = check; }

bool is_stop_wanted() { return stop_check != nullptr && stop_check(); }

Status check_stop_of_load() {
  if (!is_stop_wanted()) return check_process();  // the check may have forked
  return fail(ErrorCode::cancelled, "loading was cancelled");
}

}  // namespace nibble::gpu
