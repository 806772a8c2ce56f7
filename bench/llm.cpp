// Whole language models at the shape of Llama 3.2 1B: a decode step, a prompt of 127, planning a step, a load. Programs
// come from bench/llm/export_llama.py.
#include <algorithm>
#include <chrono>
#include <limits>
#include <set>

#include "api/session.hpp"
#include "bench/harness.hpp"
#include "nibble/nibble.hpp"
#include "wgsl.hpp"

namespace nibble::bench {
namespace {

struct Caller {
  Session session;
  std::vector<float> logits;

  explicit Caller(const Model& model)
      : session(must(model.session())), logits(static_cast<std::size_t>(model.outputs()[0].shape.numel())) {}

  void run(std::int64_t tokens, std::int64_t position) {
    const std::vector<std::int64_t> ids(static_cast<std::size_t>(tokens), 7);
    const std::array inputs = {HostTensor{.dtype = DType::i64, .shape = {1, tokens}, .data = ids.data()},
                               HostTensor{.dtype = DType::i64, .shape = {1}, .data = &position}};
    must(session.set_inputs(inputs));
    const HostOutput to{.dtype = DType::f32, .data = logits.data(), .bytes = logits.size() * 4};
    must(session.execute({&to, 1}));
  }
};

/// Reads every constant that the dispatches of the last call read, but for the embedding table, and writes it
/// elsewhere.
class WeightCopy {
 public:
  explicit WeightCopy(gpu::Executor& executor) : device_(*executor.model().device()) {
    const auto& layout = executor.model().plan()->layout();
    const auto& nodes = executor.model().plan()->graph().nodes;
    std::set<BufferId> sources;
    std::uint64_t largest = 16;
    for (const auto* d : executor.stepper().dispatches()) {
      if (nodes[d->node].op.find("embedding") != std::string::npos) continue;
      for (std::uint32_t i = 0; i < d->binding_count; ++i) {
        const auto& desc = layout.buffers[d->bindings[i]];
        if (desc.role != BufferRole::constant || !sources.insert(d->bindings[i]).second) continue;
        largest = std::max(largest, desc.bytes);
        bytes_ += desc.bytes;
      }
    }
    target_ = must(device_.make_buffer(largest, WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst, "the copy"));
    for (const auto source : sources) {
      const auto quads = static_cast<std::uint32_t>(layout.buffers[source].bytes / 16);
      const std::array<std::uint32_t, 4> params{quads, 0, 0, 0};
      const std::uint32_t groups = (quads + 63) / 64;
      const std::uint32_t rows = (groups + 65534) / 65535;
      copies_.push_back(std::make_unique<RawDispatch>(
          device_, PipelineDesc{"copy", std::string(wgsl::copy_vec4.body), {Access::read, Access::read_write}, {}},
          std::vector<WGPUBuffer>{executor.buffer(source), target_.get()},
          std::array<std::uint32_t, 3>{(groups + rows - 1) / rows, rows, 1}, std::as_bytes(std::span(params))));
    }
  }
  void run() const {
    for (const auto& copy : copies_) copy->run();
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  gpu::Device& device_;
  gpu::Buffer target_;
  std::vector<std::unique_ptr<RawDispatch>> copies_;
  std::uint64_t bytes_ = 0;
};

std::size_t layers_of(const Plan& plan) {
  return static_cast<std::size_t>(std::ranges::count_if(plan.graph().nodes, [](const Node& node) {
    return node.op == "llama.custom_sdpa.default" || node.op == "sdpa_with_kv_cache.default";
  }));
}

/// Microseconds to plan a decode step whose position changed and nothing else: the best of several rounds, like all
/// figures here.
double replan_us(const std::shared_ptr<const Plan>& plan) {
  Stepper stepper(plan);
  must(stepper.set_shape(0, {1, 1}));
  std::int32_t position = 0;
  const auto step = [&] {
    position = (position + 1) % 100;
    stepper.set_host_data(1, {&position, 1});
    must(stepper.update());
  };
  for (int i = 0; i < 100; ++i) step();
  constexpr int kSteps = 200;
  double best = std::numeric_limits<double>::max();
  for (int round = 0; round < 10; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kSteps; ++i) step();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / kSteps);
  }
  return best;
}

void measure(Report& report, const Device& device, const std::string& self, const std::string& path,
             const std::string& selector, int rounds) {
  const auto model = must(Model::load(device, path));
  const auto& plan = Internals::of(model)->resources->plan();
  const auto layers = layers_of(*plan);
  const auto name = fmt::format("{} layer{}", layers, layers == 1 ? "" : "s");
  Caller decode(model);
  decode.run(127, 0);
  decode.run(1, 127);
  auto& executor = *Internals::of(decode.session)->executor;
  const auto count = executor.stepper().dispatches().size();
  const WeightCopy copy(executor);
  std::int64_t position = 127;
  const auto t =
      alternate({[&] { decode.run(1, position = position == 127 ? 128 : 127); }, [&] { copy.run(); }}, rounds, 1);
  report.add(fmt::format("{}: decode at position 128 ({} dispatches) against a copy of its {} MB of weights", name,
                         count, copy.bytes() >> 20),
             t[0] * 1e3, t[1] * 1e3, "ms", "");
  Caller prompt(model);
  const auto p = alternate({[&] { prompt.run(127, 0); }, [&] { decode.run(1, 128); }}, std::max(3, rounds / 3), 1);
  report.add(fmt::format("{}: prompt of 127 against 127 decode steps", name), p[0] * 1e3, p[1] * 127e3, "ms", "");
  report.add(fmt::format("{}: planning a decode step against 100 us", name), replan_us(plan), 100, "us", "<= 1");
  std::uint64_t slots = 0;
  std::uint64_t weights = 0;
  for (const auto& buffer : plan->layout().buffers) {
    (buffer.role == BufferRole::slot ? slots : weights) += buffer.bytes;
  }
  std::uint64_t largest = 0;
  for (const auto& entry : plan->storage().entries) {
    if (entry.role == BufferRole::slot) largest = std::max(largest, entry.bytes);
  }
  const double mb = 1 << 20;
  report.add(fmt::format("{}: all intermediates against the largest one", name), static_cast<double>(slots) / mb,
             static_cast<double>(largest) / mb, "MB", "<= 3");
  const auto load = measure_in_child(self, "load", path, selector);
  const double buffers = static_cast<double>(weights + slots) / mb;
  report.add(fmt::format("{}: load, peak memory above an open device against its buffers", name), load.peak_mb, buffers,
             "MB", fmt::format("<= {:.3f} (+128 MB)", (buffers + 128) / buffers));
}

int run(int argc, char** argv) {
  CLI::App app{"Measures language models against references in the same run."};
  BenchOptions options{.json = {}, .device = {}, .rounds = 9};
  std::string load;
  std::vector<std::string> programs;
  app.add_option("programs", programs, "Programs of bench/llm/export_llama.py (.pte)");
  options.add_to(app);
  app.add_option("--load", load, "Load this program, print seconds and peak")->group("");
  CLI11_PARSE(app, argc, argv);

  const auto device = must(Device::open(options.device));
  if (!load.empty()) {
    std::optional<Session> session;
    measure_load([&] { session = must(must(Model::load(device, load)).session()); });
    return 0;
  }
  Report report(device.info().name);
  for (const auto& path : programs) measure(report, device, argv[0], path, options.device, options.rounds);
  report.finish(options.json);
  return 0;
}

}  // namespace
}  // namespace nibble::bench

int main(int argc, char** argv) { return nibble::bench::run(argc, argv); }
