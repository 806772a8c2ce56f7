// What a device's loads and calls did while it was traced, as plain types.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nibble {

/// A piece of work: a phase of the host's, or a dispatch on the GPU. Times are microseconds since the trace began. The
/// GPU has a clock of its own: its times are placed so that no dispatch begins before it was submitted.
struct TraceEvent {
  std::string name;          ///< a phase, such as "plan" or "wait"; or the dispatch's op
  std::string kernel;        ///< which one is compiled or dispatched; else empty
  std::uint32_t node = 0;    ///< the dispatch's, in the planned graph
  std::uint32_t thread = 0;  ///< 0: the GPU; the host's threads count from 1
  double start = 0;
  double duration = 0;
};

struct Trace {
  std::vector<TraceEvent> events;  ///< by their start; what encloses others comes before them
  std::uint64_t dropped = 0;       ///< events that there was no room for
};

}  // namespace nibble
