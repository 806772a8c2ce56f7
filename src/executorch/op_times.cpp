#include "op_times.hpp"

#include <executorch/runtime/core/event_tracer_hooks_delegate.h>
#include <executorch/runtime/platform/platform.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "graph/status.hpp"

namespace nibble {
namespace {

namespace et = ::executorch::runtime;

struct OpEvent {
  const DispatchTime* first = nullptr;
  double microseconds = 0;
  std::vector<std::string_view> kernels = {};
};

/// In the order in which they ran. The dispatches of a node follow each other.
std::vector<OpEvent> by_node(std::span<const DispatchTime> dispatches) {
  std::vector<OpEvent> ops;
  for (const auto& one : dispatches) {
    if (ops.empty() || ops.back().first->node != one.node) ops.push_back({&one});
    auto& op = ops.back();
    op.microseconds += one.microseconds;
    if (std::ranges::find(op.kernels, one.kernel) == op.kernels.end()) op.kernels.push_back(one.kernel);
  }
  return ops;
}

/// A time of the steady clock in ticks of ExecuTorch's, which may begin anywhere.
class Ticks {
 public:
  et_timestamp_t time(double microseconds) const {
    const double ticks = static_cast<double>(now_) + (microseconds - now_us_) * per_us_;
    return ticks > 0 ? static_cast<et_timestamp_t>(ticks) : 0;
  }
  et_timestamp_t length(double microseconds) const { return static_cast<et_timestamp_t>(microseconds * per_us_); }

 private:
  static double ticks_per_us() {
    const auto ns_per_tick = et::pal_ticks_to_ns_multiplier();
    return 1000.0 * static_cast<double>(ns_per_tick.denominator) / static_cast<double>(ns_per_tick.numerator);
  }

  et_timestamp_t now_ = et::pal_current_ticks();
  double now_us_ =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
  double per_us_ = ticks_per_us();
};

}  // namespace

void log_op_times(et::EventTracer& tracer, std::span<const DispatchTime> dispatches) {
  const Ticks ticks;
  for (const auto& op : by_node(dispatches)) {
    const std::string name = fmt::format("{} #{}", op.first->op, op.first->node);
    const std::string kernels = joined(op.kernels);
    const et_timestamp_t start = ticks.time(op.first->start);
    et::event_tracer_log_profiling_delegate(&tracer, name.c_str(), et::kUnsetDelegateDebugIntId, start,
                                            start + ticks.length(op.microseconds), kernels.data(), kernels.size());
  }
}

}  // namespace nibble
