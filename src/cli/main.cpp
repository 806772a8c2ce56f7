// The command line. Exit codes: 0, 1 for a failed run (one sentence on stderr), 2 for wrong usage, 130 after Ctrl-C.
#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#include "cli/commands.hpp"
#include "cli/interrupt.hpp"
#include "cli/option_flags.hpp"
#include "nibble/nibble.hpp"

namespace nibble::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

/// Not with fmt::print, which ends the process where stderr is closed.
int fail_with(const char* sentence) noexcept {
  std::fputs("nibble: ", stderr);
  std::fputs(sentence, stderr);
  std::fputs("\n", stderr);
  return kFailed;
}

void add_json(CLI::App& command, bool& json) { command.add_flag("--json", json, "Print JSON"); }

/// The two options that name a device.
template <class Options>
std::array<CLI::Option*, 2> add_device(CLI::App& command, Options& options) {
  auto* engine =
      command.add_option("--engine", options.engine, "WebGPU implementation: dawn or wgpu")->type_name("NAME");
  auto* device = command
                     .add_option("--device", options.device,
                                 "Adapter: index, kind (discrete, integrated, cpu) or part of its name")
                     ->type_name("WHICH");
  return {engine, device};
}

std::array<CLI::Option*, 2> add_model(CLI::App& command, ModelOptions& options) {
  command.add_option("model", options.model, "Program (.pte)")->required();
  add_json(command, options.json);
  command.add_option("--int", options.ints, "Value of an integer input; once for each, in order")
      ->allow_extra_args(false)
      ->type_name("N");
  add_option_flags(command, options);
  return add_device(command, options);
}

void add_shapes(CLI::App& command, ModelOptions& options) {
  command
      .add_option_function<std::vector<std::string>>(
          "--input-shape,--shape",
          [&options](const std::vector<std::string>& texts) {
            for (const auto& text : texts) {
              const auto shape = parse_input_shape(text);
              if (!shape) throw CLI::ValidationError("--input-shape", shape.error().message);
              options.shapes.push_back(*shape);
            }
          },
          "Live shape of an input, such as 0=1,7; may be given for several")
      ->allow_extra_args(false)
      ->type_name("I=DIMS");
}

void add_trace(CLI::App& command, std::string& path, const char* text) {
  command.add_option("--trace", path, text)->type_name("FILE");
}

/// All options of all commands; `chosen` is what to do.
struct CommandLine {
  CLI::App app{"Runs ExecuTorch programs on any GPU through WebGPU.", "nibble"};
  DevicesOptions devices;
  OpsOptions ops;
  InspectCommandOptions inspect;
  RunOptions run;
  BenchOptions bench;
  TuneCommandOptions tune;
  std::function<Status()> chosen;

  CommandLine() {
    app.set_version_flag("--version", fmt::format("nibble {}", version()), "Print the version");
    app.set_help_flag("-h,--help", "Print this help");
    app.footer(
        "Exit codes: 0, 1 for a failure, 2 for wrong usage, 130 for a run that Ctrl-C cancelled (twice: ended).");
    app.require_subcommand(1);
    app.get_formatter()->column_width(34);
    add_devices();
    add_inspect();
    add_run();
    add_bench();
    add_tune();
    add_ops();
    add_python();
  }

 private:
  void add_devices() {
    auto* command = app.add_subcommand("devices", "List the adapters that can run programs");
    command->add_option("--engine", devices.engine, "Only those of this engine: dawn or wgpu")->type_name("NAME");
    command->add_flag("--json", devices.json, "Print all device profiles as JSON, for inspect --device-profile");
    command->callback([this] { chosen = [this] { return devices_command(devices); }; });
  }

  void add_inspect() {
    auto* command = app.add_subcommand("inspect", "Tell what a program is and what running it would take");
    const auto [engine, device] = add_model(*command, inspect);
    add_shapes(*command, inspect);
    command->add_flag("--plan", inspect.plan, "Every dispatch of a call");
    command->add_flag("--variants", inspect.variants, "Which kernels a call chooses and why, and which others may");
    command
        ->add_option("--device-profile", inspect.device_profile,
                     "Plan for the device in this file; without it, --device and --engine, for WebGPU's default limits")
        ->type_name("FILE")
        ->excludes(device)
        ->excludes(engine);
    command->callback([this, engine, device] {
      inspect.use_device = engine->count() != 0 || device->count() != 0;
      chosen = [this] { return inspect_command(inspect); };
    });
  }

  void add_run() {
    auto* command = app.add_subcommand("run", "Run a program on NumPy arrays");
    add_model(*command, run);
    command->add_option("--input", run.inputs, "Array for a tensor input (.npy); once for each, in order")
        ->allow_extra_args(false)
        ->type_name("FILE");
    command
        ->add_option("--output", run.outputs, "Where an output goes (.npy); once for each. Without: print first values")
        ->allow_extra_args(false)
        ->type_name("FILE");
    command->add_flag("--profile", run.profile, "GPU time per operator");
    command->add_option("--repeat", run.repeat, "Number of calls")
        ->type_name("N")
        ->check(CLI::Range(1, std::numeric_limits<int>::max()));
    add_trace(*command, run.trace, "Write what host and GPU do, and when, for chrome://tracing and Perfetto");
    command->callback([this] { chosen = [this] { return run_command(run); }; });
  }

  void add_bench() {
    auto* command = app.add_subcommand("bench", "Time calls of a program on random inputs");
    add_model(*command, bench);
    add_shapes(*command, bench);
    auto* calls = command->add_option("--calls", bench.calls, "Number of calls")
                      ->type_name("N")
                      ->check(CLI::Range(1, std::numeric_limits<int>::max()));
    command->add_option("--seconds", bench.seconds, "How long to call it (default: 2)")
        ->type_name("S")
        ->check(CLI::NonNegativeNumber)
        ->excludes(calls);
    add_trace(*command, bench.trace,
              "Write what host and GPU do, and when, for chrome://tracing and Perfetto: the load and the calls before "
              "those that are timed");
    command->callback([this] { chosen = [this] { return bench_command(bench); }; });
  }

  void add_tune() {
    auto* command = app.add_subcommand("tune", "Measure which kernels are the fastest here, and keep that for later");
    auto* models = command->add_option("model", tune.models, "Programs (.pte)");
    add_json(*command, tune.json);
    auto* output = command
                       ->add_option("--output", tune.output,
                                    "File that the tuning is added to, such as model.tuning.json; without it, one in "
                                    "the cache folder")
                       ->type_name("FILE");
    command
        ->add_option("--merge", tune.merge,
                     "Measure nothing, but add the tunings in these files, of this or of other machines, to --output")
        ->type_name("FILE")
        ->excludes(models)
        ->needs(output);
    add_option_flags(*command, tune);
    add_device(*command, tune);
    command->callback([this] {
      if (tune.models.empty() && tune.merge.empty()) throw CLI::RequiredError("model");
      chosen = [this] { return tune_command(tune); };
    });
  }

  void add_ops() {
    auto* command = app.add_subcommand("ops", "List the operators that Nibble has");
    command->add_flag("--json", ops.json, "Print JSON: of operators, what each argument is for");
    auto* passes = command->add_flag("--passes", ops.passes, "The graph rewrites instead, for --without-pass");
    command->add_flag("--variants", ops.variants, "The kernels' variants instead, for --variant")->excludes(passes);
    command->callback([this] { chosen = [this] { return ops_command(ops); }; });
  }

  /// Commands of the Python package, whose script runs them before it comes here.
  void add_python() {
    constexpr std::array<std::pair<const char*, const char*>, 6> kInPython = {{
        {"check", "Test all kernels on this machine, and write a report of it"},
        {"import", "Make a program of a GGUF file"},
        {"generate", "Generate text with a language model, or chat"},
        {"serve", "Serve models over HTTP, for clients of OpenAI's API"},
        {"embed", "Turn the lines of texts into vectors"},
        {"search", "Rank the lines of texts by how close they are to a question"},
    }};
    for (const auto& [name, text] : kInPython) {
      auto* command = app.add_subcommand(name, text);
      command->set_help_flag();
      command->prefix_command();
      command->callback([this, name] {
        chosen = [name]() -> Status {
          return fail(ErrorCode::unsupported,
                      "'{}' is a command of Nibble's Python package: pip install nibble-runtime", name);
        };
      });
    }
  }
};

int main_command(int argc, char** argv) {
  CommandLine line;
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return line.app.exit(error);
    if (dynamic_cast<const CLI::FileError*>(&error) != nullptr) return fail_with(error.what());
    // CLI11 only says that there was no command.
    const auto rest = line.app.remaining();
    const bool is_unknown = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !rest.empty();
    fail_with(is_unknown ? fmt::format("there is no command or option '{}'", rest.front()).c_str() : error.what());
    const auto chosen = line.app.get_subcommands();
    const std::string command = chosen.empty() ? "" : " " + chosen.front()->get_name();
    std::fputs(fmt::format("See: nibble{} --help\n", command).c_str(), stderr);
    return kWrongUsage;
  }
  if (const Status status = line.chosen(); !status) {
    fail_with(status.error().message.c_str());
    return status.error().code == ErrorCode::cancelled ? kInterrupted : kFailed;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return fail_with(fmt::format("cannot write the result: {}", std::strerror(errno)).c_str());
  }
  return 0;
}

}  // namespace
}  // namespace nibble::cli

/// What the wheel's command, a Python script, calls.
extern "C" [[gnu::visibility("default")]] int nibble_main(int argc, char** argv) noexcept {
  try {
    return nibble::cli::main_command(argc, argv);
  } catch (const std::bad_alloc&) {
    return nibble::cli::fail_with("out of memory");
  } catch (const std::length_error&) {
    return nibble::cli::fail_with("out of memory");
  } catch (const std::exception& error) {
    return nibble::cli::fail_with(error.what());
  }
}

int main(int argc, char** argv) { return nibble_main(argc, argv); }
