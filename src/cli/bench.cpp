#include <algorithm>
#include <chrono>
#include <numeric>

#include "api/inspect.hpp"
#include "api/json.hpp"
#include "api/profile_json.hpp"
#include "cli/commands.hpp"
#include "cli/host_values.hpp"
#include "cli/interrupt.hpp"
#include "cli/table.hpp"
#include "cli/trace_file.hpp"

namespace nibble::cli {
namespace {

constexpr std::size_t kWarmUpCalls = 3;
constexpr std::size_t kFewestCalls = 10;
constexpr std::size_t kProfiledCalls = 5;

/// Random inputs at the wanted shapes; the inspection knows which of them are ids, and of which table.
Result<HostInputs> make_inputs(const Model& model, const Device& device, const BenchOptions& options) {
  TRY_ASSIGN(const DeviceProfile profile, profile_from_json(device.info().profile_json));
  TRY_ASSIGN(const Inspection facts, inspect(options.model, profile, options));
  std::vector<Array> arrays;
  std::vector<std::int64_t> ints = options.ints;
  std::size_t int_count = 0;
  for (std::size_t i = 0; i < model.inputs().size(); ++i) {
    const TensorInfo& info = model.inputs()[i];
    if (info.is_int) {
      // An integer is a position or a size: 1 is valid where 0 may not be.
      if (++int_count > ints.size()) ints.push_back(1);
      continue;
    }
    const auto given = std::ranges::find(options.shapes, i, &InputShape::first);
    const Shape& shape = given == options.shapes.end() ? info.shape : given->second;
    TRY_ASSIGN(Array array, random_array(info.dtype, shape, facts.inputs[i].index_rows.value_or(1), i));
    arrays.push_back(std::move(array));
  }
  for (const auto& [input, shape] : options.shapes) {
    if (input >= model.inputs().size()) {
      return fail(ErrorCode::invalid_argument, "there is no input {}: the program has {}", input,
                  model.inputs().size());
    }
  }
  return bind_inputs(model.inputs(), std::move(arrays), ints);
}

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// Microseconds of every call, sorted.
Result<std::vector<double>> time_calls(Session& session, const HostInputs& inputs, const HostOutputs& outputs,
                                       const BenchOptions& options) {
  std::vector<double> calls;
  const auto begin = Clock::now();
  const auto wanted = [&] {
    if (options.calls != 0) return calls.size() < options.calls;
    return calls.size() < kFewestCalls || microseconds_since(begin) < options.seconds * 1e6;
  };
  while (wanted()) {
    TRY(StopAtInterrupt::check());
    const auto start = Clock::now();
    TRY(session.set_inputs(inputs.tensors));
    TRY(session.execute(outputs.outputs));
    calls.push_back(microseconds_since(start));
  }
  std::ranges::sort(calls);
  return calls;
}

/// The median of the dispatches' GPU time in one call.
Result<double> time_gpu(Session& session, const HostInputs& inputs, const HostOutputs& outputs) {
  std::vector<double> calls;
  for (std::size_t i = 0; i < kProfiledCalls; ++i) {
    TRY(StopAtInterrupt::check());
    TRY(session.set_inputs(inputs.tensors));
    TRY_ASSIGN(const auto times, session.profile(outputs.outputs));
    calls.push_back(std::accumulate(times.begin(), times.end(), 0.0,
                                    [](double sum, const DispatchTime& t) { return sum + t.microseconds; }));
  }
  std::ranges::sort(calls);
  return quantile(calls, 0.5);
}

}  // namespace

Status bench_command(const BenchOptions& options) {
  const StopAtInterrupt stop;
  TraceFile trace;
  TRY(trace.create(options.trace));
  TRY_ASSIGN(const Device device, Device::open(options.device, options.engine));
  TRY(trace.start(device));
  TRY_ASSIGN(const Model model, load_shown(device, options));
  TRY_ASSIGN(const HostInputs inputs, make_inputs(model, device, options));
  TRY_ASSIGN(Session session, model.session());
  TRY(session.set_inputs(inputs.tensors));
  TRY_ASSIGN(const HostOutputs outputs, make_outputs(model, session));
  for (std::size_t i = 0; i < kWarmUpCalls; ++i) {
    TRY(session.set_inputs(inputs.tensors));
    TRY(session.execute(outputs.outputs));
  }
  std::optional<double> gpu;
  if (device.info().timestamp_query) {
    TRY_ASSIGN(gpu, time_gpu(session, inputs, outputs));
  }
  TRY(trace.finish());  // tracing would be part of the times
  TRY_ASSIGN(const auto calls, time_calls(session, inputs, outputs, options));
  const double median = quantile(calls, 0.5);

  if (options.json) {
    Json json = {{"model", options.model}, {"device", device.info().name},   {"calls", calls.size()},
                 {"median_us", median},    {"p10_us", quantile(calls, 0.1)}, {"p90_us", quantile(calls, 0.9)},
                 {"gpu_us", nullptr}};
    if (gpu) json["gpu_us"] = *gpu;
    print(json.dump(2) + '\n');
    return {};
  }
  Table table("lrl");
  table.row({"device", device.info().name});
  table.row({"calls", std::to_string(calls.size())});
  table.row({"median", fmt::format("{:.1f} us", median)});
  table.row({"p10", fmt::format("{:.1f} us", quantile(calls, 0.1))});
  table.row({"p90", fmt::format("{:.1f} us", quantile(calls, 0.9))});
  if (gpu)
    table.row({"gpu", fmt::format("{:.1f} us", *gpu), fmt::format("{:.0f} % of the median call", *gpu / median * 100)});
  print(table.text());
  return {};
}

}  // namespace nibble::cli
