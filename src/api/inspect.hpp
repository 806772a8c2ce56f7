// What a program contains and what it needs to run; works without a GPU.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nibble/options.hpp"
#include "plan/print.hpp"
#include "program/program.hpp"

namespace nibble {

struct InspectOptions : Options {
  std::vector<std::pair<std::size_t, Shape>> shapes = {};  ///< live shapes by input; others have their largest
  std::vector<std::int64_t> ints = {};  ///< values of the integer inputs, in order; missing ones are 0
};

struct Inspection {
  struct Input {
    HostValue host;
    bool used = true;
    std::optional<std::int64_t> index_rows;  ///< its elements are ids below this
  };
  struct Op {
    std::string name;
    std::size_t count = 0;
    bool supported = false;
    /// The dtypes of its tensors in the program, by argument name.
    std::map<std::string_view, std::set<DType>> dtypes = {};
  };
  /// What one call does.
  struct Step {
    std::vector<Shape> inputs;
    std::vector<Shape> outputs;
    std::vector<DispatchInfo> dispatches;
    std::vector<ChoiceInfo> choices;
  };
  struct PlanFacts {
    MemoryUse memory;
    std::size_t pipelines = 0;
    std::uint32_t max_dispatches = 0;
    std::vector<StateInfo> states;  ///< as in a new session: no rows are in use
    std::optional<Step> step;
  };

  std::string file;
  std::uint64_t file_bytes = 0;
  std::string method;
  std::vector<Input> inputs;
  std::vector<HostValue> outputs;
  std::vector<ConstantMethod> constant_methods;
  std::vector<Op> ops;  ///< in the order of their first use
  std::size_t constants = 0;
  std::uint64_t constant_bytes = 0;
  std::string device;
  std::optional<PlanFacts> plan;
  /// All reasons why there is no plan for this device, or else why there is no step for these shapes.
  Refusals problems;
};

/// Fails if the file cannot be read as a program. If the program cannot be planned, `problems` says why; it then
/// also describes methods that are more than one delegate call, which run only through ExecuTorch.
Result<Inspection> inspect(const std::string& path, const DeviceProfile& profile, const InspectOptions& options = {});

/// What to include in addition to the summary.
struct InspectDetails {
  bool dispatches = false;
  bool variants = false;
};

std::string to_json(const Inspection& inspection, InspectDetails details);

}  // namespace nibble
