#include <algorithm>
#include <chrono>

#include "api/json.hpp"
#include "cli/commands.hpp"
#include "cli/host_values.hpp"
#include "cli/interrupt.hpp"
#include "cli/table.hpp"
#include "cli/trace_file.hpp"

namespace nibble::cli {
namespace {

constexpr std::size_t kShownValues = 8;

/// GPU time of all dispatches of one op with one kernel.
struct OpTime {
  std::string op;
  std::string kernel;
  std::size_t dispatches = 0;  ///< of one call
  double microseconds = 0;     ///< of one call, on average
};

struct RunResult {
  std::vector<double> call_ms;
  std::vector<OpTime> times;  ///< the longest first
};

void add_times(std::vector<OpTime>& all, const std::vector<DispatchTime>& call, std::uint32_t calls, bool is_first) {
  for (const auto& t : call) {
    auto op = std::ranges::find_if(all, [&](const OpTime& o) { return o.op == t.op && o.kernel == t.kernel; });
    if (op == all.end()) op = all.insert(op, {t.op, t.kernel});
    op->dispatches += is_first ? 1 : 0;
    op->microseconds += t.microseconds / calls;
  }
}

Result<RunResult> call(Session& session, const HostInputs& inputs, const HostOutputs& outputs,
                       const RunOptions& options) {
  RunResult result;
  for (std::uint32_t i = 0; i < options.repeat; ++i) {
    TRY(StopAtInterrupt::check());
    const auto start = std::chrono::steady_clock::now();
    TRY(session.set_inputs(inputs.tensors));
    if (options.profile) {
      TRY_ASSIGN(const auto times, session.profile(outputs.outputs));
      add_times(result.times, times, options.repeat, i == 0);
    } else {
      TRY(session.execute(outputs.outputs));
    }
    result.call_ms.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(result.times, std::ranges::greater{}, &OpTime::microseconds);
  return result;
}

std::string print_times(const std::vector<OpTime>& times) {
  double all = 0;
  for (const auto& t : times) all += t.microseconds;
  const auto share = [&](double us) { return fmt::format("{:.1f} %", all > 0 ? us / all * 100 : 0); };
  Table table("llrrr");
  table.row({"operator", "kernel", "dispatches", "us", "share"});
  std::size_t dispatches = 0;
  for (const auto& t : times) {
    table.row(
        {t.op, t.kernel, std::to_string(t.dispatches), fmt::format("{:.1f}", t.microseconds), share(t.microseconds)});
    dispatches += t.dispatches;
  }
  table.row({"all", "", std::to_string(dispatches), fmt::format("{:.1f}", all), share(all)});
  return table.text();
}

std::string print_outputs(const std::vector<Array>& outputs) {
  std::string text;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& array = outputs[i];
    const bool more = array.shape.numel() > static_cast<std::int64_t>(kShownValues);
    text += fmt::format("output {}: {} {}\n  {}{}\n", i, array.dtype, array.shape,
                        fmt::join(first_values(array, kShownValues), ", "), more ? ", ..." : "");
  }
  return text;
}

std::string print_json(const Device& device, const HostOutputs& outputs, const RunResult& result,
                       const RunOptions& options) {
  Json json = {{"device", device.info().name}, {"outputs", Json::array()}, {"call_ms", result.call_ms}};
  for (std::size_t i = 0; i < outputs.arrays.size(); ++i) {
    const auto& array = outputs.arrays[i];
    Json output = {{"dtype", to_string(array.dtype)}, {"shape", array.shape.dims()}};
    if (options.outputs.empty()) {
      // inf and nan are no JSON numbers: those stay text.
      Json values = Json::array();
      for (const auto& value : first_values(array, kShownValues)) {
        values.push_back(Json::parse(value).value_or(value));
      }
      output["first_values"] = std::move(values);
    } else {
      output["file"] = options.outputs[i];
    }
    json["outputs"].push_back(std::move(output));
  }
  if (options.profile) {
    json["gpu_times"] = Json::array();
    for (const auto& t : result.times) {
      json["gpu_times"].push_back(
          {{"op", t.op}, {"kernel", t.kernel}, {"dispatches", t.dispatches}, {"microseconds", t.microseconds}});
    }
  }
  return json.dump(2) + '\n';
}

}  // namespace

Status run_command(const RunOptions& options) {
  const StopAtInterrupt stop;
  std::vector<Array> arrays;
  for (const auto& path : options.inputs) {
    TRY_ASSIGN(Array array, read_npy(path));
    arrays.push_back(std::move(array));
  }
  TraceFile trace;
  TRY(trace.create(options.trace));
  TRY_ASSIGN(const Device device, Device::open(options.device, options.engine));
  TRY(trace.start(device));
  TRY_ASSIGN(const Model model, load_shown(device, options));
  if (!options.outputs.empty() && options.outputs.size() != model.outputs().size()) {
    return fail(ErrorCode::invalid_argument, "the program has {} outputs, but --output was given {} times",
                model.outputs().size(), options.outputs.size());
  }
  TRY_ASSIGN(const HostInputs inputs, bind_inputs(model.inputs(), std::move(arrays), options.ints));
  TRY_ASSIGN(Session session, model.session());
  TRY(session.set_inputs(inputs.tensors));
  TRY_ASSIGN(const HostOutputs outputs, make_outputs(model, session));
  TRY_ASSIGN(const RunResult result, call(session, inputs, outputs, options));
  TRY(trace.finish());

  for (std::size_t i = 0; i < options.outputs.size(); ++i) {
    const auto& array = outputs.arrays[i];
    TRY(write_npy(options.outputs[i], array.dtype, array.shape, array.memory.span()));
  }
  if (options.json) {
    print(print_json(device, outputs, result, options));
    return {};
  }
  if (options.outputs.empty()) print(print_outputs(outputs.arrays));
  if (options.profile) print(print_times(result.times));
  return {};
}

}  // namespace nibble::cli
