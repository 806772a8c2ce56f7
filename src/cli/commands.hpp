// The commands, without their command line. Each prints its result to stdout and nothing else there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/inspect.hpp"
#include "graph/status.hpp"
#include "nibble/nibble.hpp"

namespace nibble::cli {

/// An input's number and its live shape.
using InputShape = std::pair<std::size_t, Shape>;

/// Reads `0=1,7`; an empty list is a scalar.
Result<InputShape> parse_input_shape(std::string_view text);

struct DevicesOptions {
  std::string engine;
  bool json = false;
};
Status devices_command(const DevicesOptions& options);

struct OpsOptions {
  bool json = false;
  bool passes = false;
  bool variants = false;
};
Status ops_command(const OpsOptions& options);

/// What all commands that take a program have in common.
struct ModelOptions : InspectOptions {
  std::string model;
  std::string device;
  std::string engine;
  bool json = false;
};

struct InspectCommandOptions : ModelOptions {
  bool use_device = false;  ///< `device` was given, be it empty
  std::string device_profile;
  bool plan = false;
  bool variants = false;
};
Status inspect_command(const InspectCommandOptions& options);

struct RunOptions : ModelOptions {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  bool profile = false;
  std::uint32_t repeat = 1;
  std::string trace;  ///< file, or empty
};
Status run_command(const RunOptions& options);

struct BenchOptions : ModelOptions {
  std::uint32_t calls = 0;  ///< 0: as many as fit in `seconds`
  double seconds = 2;
  std::string trace;  ///< file, or empty
};
Status bench_command(const BenchOptions& options);

struct TuneCommandOptions : TuneOptions {
  std::vector<std::string> models;
  std::vector<std::string> merge;  ///< files of tunings; then there are no models
  std::string device;
  std::string engine;
  bool json = false;
};
Status tune_command(const TuneCommandOptions& options);

/// Tells on stderr what there is to say about a load that succeeded.
void say_notes(std::span<const std::string> notes);
/// With bars while it takes long, and its notes.
Result<Model> load_shown(const Device& device, const ModelOptions& options);

}  // namespace nibble::cli
