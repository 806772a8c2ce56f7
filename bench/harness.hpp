// Timing with a reference: things that are compared run alternately, in one process, on one device.
#pragma once

#include <CLI/CLI.hpp>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "gpu/executor.hpp"
#include "nibble/nibble.hpp"
#include "plan/plan.hpp"

namespace nibble::bench {

/// What every benchmark can be told.
struct BenchOptions {
  std::string json;
  std::string device;
  int rounds = 0;

  void add_to(CLI::App& app);
};

/// One figure: `value` and `reference` in the same unit, and what `value` may be at most (as a ratio).
struct Record {
  std::string name;
  std::string adapter;
  double value = 0;
  double reference = 0;
  double ratio = 0;
  std::string unit;
  std::string goal;
};

class Report {
 public:
  explicit Report(std::string adapter) : adapter_(std::move(adapter)) {}
  void add(std::string name, double value, double reference, std::string unit, std::string goal);
  /// Prints the figures, and writes them to a file if there is a path.
  void finish(const std::string& json) const;

 private:
  void print() const;
  bool write_json(const std::string& path) const;

  std::string adapter_;
  std::vector<Record> records_;
};

/// Median seconds of each candidate over `rounds` rounds, in each of which all run once, in turn.
std::vector<double> alternate(const std::vector<std::function<void()>>& candidates, int rounds, int warm_up = 3);

/// For kernels that are measured alone: their dispatches are not cut into pieces.
LoadOptions with_whole_dispatches();

/// One dispatch by itself: encode, submit, wait. Several times in one submission shows what the kernel takes, without
/// the fixed cost of a submission.
class RawDispatch {
 public:
  RawDispatch(gpu::Device& device, PipelineDesc desc, std::vector<WGPUBuffer> buffers,
              std::array<std::uint32_t, 3> grid, std::span<const std::byte> params);
  /// A dispatch of the executor's last call, on its own buffers.
  RawDispatch(gpu::Executor& executor, const Dispatch& dispatch);
  void run(int times = 1) const;
  /// As run(), and reads the first `bytes` bytes of buffer `index` back into `to`.
  void run_and_read(std::size_t index, std::uint64_t bytes, std::byte* to);

 private:
  friend void run_in_order(gpu::Device& device, const std::deque<RawDispatch>& dispatches, int times);
  void encode(WGPUCommandEncoder encoder) const;

  gpu::Device& device_;
  std::shared_ptr<const gpu::Pipeline> pipeline_;
  std::vector<WGPUBuffer> buffers_;
  std::array<std::uint32_t, 3> grid_;
  gpu::Buffer params_;
  gpu::BindGroup group_;
  gpu::Readback readback_;
};

/// The buffers of a dispatch.
std::vector<WGPUBuffer> buffers_of(gpu::Executor& executor, const Dispatch& dispatch);

/// Several dispatches, one after the other, all of them `times` times, in one submission.
void run_in_order(gpu::Device& device, const std::deque<RawDispatch>& dispatches, int times = 1);

/// Runs `load` and prints: seconds, peak KB above what the process had before.
void measure_load(const std::function<void()>& load);

struct Load {
  double seconds = 0;
  double peak_mb = 0;
};

/// What measure_load prints in a process of its own: `self --mode path --device device`.
Load measure_in_child(const std::string& self, const std::string& mode, const std::string& path,
                      const std::string& device);

/// Ends the program with a sentence: a benchmark that cannot measure has nothing to say.
[[noreturn]] void die(const std::string& message);

template <class T>
T must(Result<T> result) {
  if (!result) die(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace nibble::bench
