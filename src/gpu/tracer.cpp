#include "gpu/tracer.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <tuple>
#include <utility>

#include "graph/guarded.hpp"

namespace nibble::gpu {

double now_us() noexcept {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Status Tracer::start() {
  const std::lock_guard lock(mutex_);
  if (is_on_) return fail(ErrorCode::invalid_argument, "this device is being traced already");
  trace_ = {};
  threads_.clear();
  begin_ = now_us();
  is_on_ = true;
  return {};
}

Result<Trace> Tracer::stop() {
  const std::lock_guard lock(mutex_);
  if (!is_on_) return fail(ErrorCode::invalid_argument, "this device is not being traced");
  is_on_ = false;
  auto recorded = std::exchange(trace_, {});
  const auto& events = recorded.events;
  // What began at once and took as long stays in the order in which it was recorded.
  std::vector<std::size_t> order(events.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::tuple(events[i].start, -events[i].duration, i); });
  Trace sorted{.events = {}, .dropped = recorded.dropped};
  sorted.events.reserve(order.size());
  for (const auto i : order) sorted.events.push_back(std::move(recorded.events[i]));
  return sorted;
}

/// Too little memory is no reason for a call to fail that is only looked at.
template <class Make>
void Tracer::add(double start, const Make& make) noexcept {
  const std::lock_guard lock(mutex_);
  if (!is_on_ || start < begin_) return;
  const bool is_added = trace_.events.size() < most_events_ && guarded(
                                                                   [&] {
                                                                     trace_.events.push_back(make());
                                                                     return true;
                                                                   },
                                                                   [] { return false; });
  if (!is_added) ++trace_.dropped;
}

void Tracer::add_phase(const char* name, std::string_view kernel, double start, double end) noexcept {
  add(start, [&] {
    const auto id = std::this_thread::get_id();
    auto found = std::ranges::find(threads_, id);
    if (found == threads_.end()) found = threads_.insert(found, id);
    const auto thread = static_cast<std::uint32_t>(found - threads_.begin() + 1);
    return TraceEvent{name, std::string(kernel), 0, thread, start - begin_, end - start};
  });
}

void Tracer::add_dispatches(std::span<const DispatchTime> dispatches) noexcept {
  for (const auto& one : dispatches) {
    add(one.start, [&] { return TraceEvent{one.op, one.kernel, one.node, 0, one.start - begin_, one.microseconds}; });
  }
}

double Tracer::offset(double first, double last, double submitted, double done) {
  const std::lock_guard lock(mutex_);
  // Where the clocks contradict each other, the beginning counts.
  offset_ = std::max(std::min(offset_, done - last), submitted - first);
  return offset_;
}

}  // namespace nibble::gpu
