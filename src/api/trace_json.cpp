#include <algorithm>

#include "api/json.hpp"
#include "graph/guarded.hpp"
#include "nibble/nibble.hpp"

namespace nibble {
namespace {

// Numbers of threads in the file. Viewers take 0 for an idle processor, and show threads in this order.
std::uint32_t tid_of(std::uint32_t thread) { return thread == 0 ? 1000 : thread; }

std::string name_of(std::uint32_t thread) {
  return thread == 0 ? "GPU" : thread == 1 ? "host" : fmt::format("host {}", thread);
}

void write_name(std::string& to, const char* what, std::uint32_t tid, std::string_view name) {
  to += fmt::format(R"({{"ph":"M","pid":1,"tid":{},"name":"{}","args":{{"name":"{}"}}}})", tid, what, name);
}

void write_event(std::string& to, const TraceEvent& event) {
  const bool is_gpu = event.thread == 0;
  to +=
      fmt::format(R"({{"ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"cat":"{}","name":{})", tid_of(event.thread),
                  event.start, event.duration, is_gpu ? "gpu" : "host", Json(event.name).dump());
  if (!event.kernel.empty()) to += fmt::format(R"(,"args":{{"kernel":{})", Json(event.kernel).dump());
  if (!event.kernel.empty() && is_gpu) to += fmt::format(R"(,"node":{})", event.node);
  to += event.kernel.empty() ? "}" : "}}";
}

}  // namespace

Result<std::string> chrome_trace(const Trace& trace) {
  return guarded([&]() -> Result<std::string> {
    std::vector<std::uint32_t> threads;
    for (const auto& event : trace.events) {
      if (std::ranges::find(threads, event.thread) == threads.end()) threads.push_back(event.thread);
    }
    // One event in a line, so that a person can read the file, and a tool can search it.
    std::string text = "{\"traceEvents\":[\n";
    write_name(text, "process_name", 1, "nibble");
    for (const auto thread : threads) {
      text += ",\n";
      write_name(text, "thread_name", tid_of(thread), name_of(thread));
    }
    for (const auto& event : trace.events) {
      text += ",\n";
      write_event(text, event);
    }
    text += fmt::format("\n],\"displayTimeUnit\":\"ms\",\"otherData\":{{\"dropped\":{}}}}}\n", trace.dropped);
    return text;
  });
}

}  // namespace nibble
