#include "bench/harness.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace nibble::bench {

void die(const std::string& message) {
  fmt::print(stderr, "bench: {}\n", message);
  std::exit(1);
}

void BenchOptions::add_to(CLI::App& app) {
  app.add_option("--json", json, "Write one record per figure to this file");
  app.add_option("--device", device, "Which adapter: an index, a kind or a part of its name");
  app.add_option("--rounds", rounds, "Rounds of each comparison; fewer where a round is long")
      ->check(CLI::Range(3, 1000));
}

void Report::add(std::string name, double value, double reference, std::string unit, std::string goal) {
  records_.push_back(
      {std::move(name), adapter_, value, reference, value / reference, std::move(unit), std::move(goal)});
}

void Report::print() const {
  fmt::print("{}\n\n{:<58} {:>12} {:>12} {:>8}  {}\n", adapter_, "figure", "value", "reference", "ratio", "goal");
  for (const auto& r : records_) {
    fmt::print("{:<58} {:>9.3f} {:<2} {:>9.3f} {:<2} {:>8.3f}  {}\n", r.name, r.value, r.unit, r.reference, r.unit,
               r.ratio, r.goal);
  }
}

bool Report::write_json(const std::string& path) const {
  auto list = nlohmann::json::array();
  for (const auto& r : records_) {
    list.push_back({{"name", r.name},
                    {"adapter", r.adapter},
                    {"value", r.value},
                    {"reference", r.reference},
                    {"ratio", r.ratio},
                    {"unit", r.unit},
                    {"goal", r.goal}});
  }
  std::ofstream file(path);
  file << list.dump(2) << "\n";
  return file.good();
}

void Report::finish(const std::string& json) const {
  print();
  if (!json.empty() && !write_json(json)) die("cannot write " + json);
}

std::vector<double> alternate(const std::vector<std::function<void()>>& candidates, int rounds, int warm_up) {
  std::vector<std::vector<double>> seconds(candidates.size());
  for (int round = -warm_up; round < rounds; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      candidates[i]();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (round >= 0) seconds[i].push_back(took.count());
    }
  }
  std::vector<double> medians;
  for (auto& s : seconds) {
    std::ranges::sort(s);
    medians.push_back(s[s.size() / 2]);
  }
  return medians;
}

LoadOptions with_whole_dispatches() { return {{.max_batch_work = std::numeric_limits<std::uint64_t>::max()}}; }

RawDispatch::RawDispatch(gpu::Device& device, PipelineDesc desc, std::vector<WGPUBuffer> buffers,
                         std::array<std::uint32_t, 3> grid, std::span<const std::byte> params)
    : device_(device),
      pipeline_(must(device.pipelines().get(desc))),
      buffers_(std::move(buffers)),
      grid_(grid),
      params_(
          must(device.make_buffer(kParamsStride, WGPUBufferUsage_Uniform | WGPUBufferUsage_CopyDst, "parameters"))) {
  gpu::ErrorScope scope(device_, gpu::ErrorScope::Catch::validation);
  std::array<std::byte, kParamsStride> block{};
  std::ranges::copy(params, block.begin());
  device_.call().QueueWriteBuffer(device_.queue(), params_.get(), 0, block.data(), block.size());
  std::vector<WGPUBindGroupEntry> entries(buffers_.size() + 1);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i] = {};
    entries[i].binding = static_cast<std::uint32_t>(i);
    entries[i].buffer = i == 0 ? params_.get() : buffers_[i - 1];
    entries[i].size = i == 0 ? kParamsStride : WGPU_WHOLE_SIZE;
  }
  WGPUBindGroupDescriptor group{};
  group.layout = pipeline_->layout->group.get();
  group.entryCount = entries.size();
  group.entries = entries.data();
  group_ = gpu::BindGroup(device_.engine(), device_.call().DeviceCreateBindGroup(device_.handle(), &group));
  must(scope.close("making a benchmark's dispatch"));
}

RawDispatch::RawDispatch(gpu::Executor& executor, const Dispatch& dispatch)
    : RawDispatch(*executor.model().device(), executor.stepper().plan().layout().pipelines[dispatch.pipeline],
                  buffers_of(executor, dispatch), dispatch.grid, dispatch.params) {}

std::vector<WGPUBuffer> buffers_of(gpu::Executor& executor, const Dispatch& dispatch) {
  std::vector<WGPUBuffer> buffers;
  for (auto id : std::span(dispatch.bindings).first(dispatch.binding_count)) buffers.push_back(executor.buffer(id));
  return buffers;
}

void RawDispatch::encode(WGPUCommandEncoder encoder) const {
  const auto& w = device_.call();
  const gpu::ComputePass pass(device_.engine(), w.CommandEncoderBeginComputePass(encoder, nullptr));
  const std::uint32_t offset = 0;
  w.ComputePassEncoderSetPipeline(pass.get(), pipeline_->handle.get());
  w.ComputePassEncoderSetBindGroup(pass.get(), 0, group_.get(), 1, &offset);
  w.ComputePassEncoderDispatchWorkgroups(pass.get(), grid_[0], grid_[1], grid_[2]);
  w.ComputePassEncoderEnd(pass.get());
}

void RawDispatch::run(int times) const {
  const gpu::CommandEncoder encoder = device_.make_encoder();
  for (int i = 0; i < times; ++i) encode(encoder.get());
  const gpu::CommandBuffer commands = device_.finish(encoder);
  device_.wait(device_.submit(commands));
}

void run_in_order(gpu::Device& device, const std::deque<RawDispatch>& dispatches, int times) {
  const gpu::CommandEncoder encoder = device.make_encoder();
  for (int i = 0; i < times; ++i) {
    for (const auto& d : dispatches) d.encode(encoder.get());
  }
  const gpu::CommandBuffer commands = device.finish(encoder);
  device.wait(device.submit(commands));
}

void RawDispatch::run_and_read(std::size_t index, std::uint64_t bytes, std::byte* to) {
  if (readback_.buffer() == nullptr) must(readback_.make(device_, bytes));
  const gpu::CommandEncoder encoder = device_.make_encoder();
  encode(encoder.get());
  device_.call().CommandEncoderCopyBufferToBuffer(encoder.get(), buffers_[index], 0, readback_.buffer(), 0, bytes);
  const gpu::CommandBuffer commands = device_.finish(encoder);
  const auto submission = device_.submit(commands);
  readback_.request(device_, bytes);
  const auto data = must(readback_.wait(device_, submission));
  std::ranges::copy(data, to);
  readback_.release(device_);
}

namespace {

std::uint64_t status_kb(const char* field) {
  std::ifstream file("/proc/self/status");
  std::string word;
  std::uint64_t value = 0;
  while (file >> word) {
    if (word == field) file >> value;
  }
  return value;
}

}  // namespace

void measure_load(const std::function<void()>& load) {
  const auto before = status_kb("VmRSS:");
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts anew here
  const auto start = std::chrono::steady_clock::now();
  load();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print("{} {}\n", took.count(),
             static_cast<std::int64_t>(status_kb("VmHWM:")) - static_cast<std::int64_t>(before));
}

Load measure_in_child(const std::string& self, const std::string& mode, const std::string& path,
                      const std::string& device) {
  const auto command = fmt::format("'{}' --{} '{}' --device '{}'", self, mode, path, device);
  FILE* pipe = ::popen(command.c_str(), "r");
  Load load;
  double kb = 0;
  if (pipe == nullptr || std::fscanf(pipe, "%lf %lf", &load.seconds, &kb) != 2)
    die("the load in a process of its own failed");
  ::pclose(pipe);
  load.peak_mb = kb / 1024;
  return load;
}

}  // namespace nibble::bench
