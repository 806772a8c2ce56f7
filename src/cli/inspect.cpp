#include <charconv>

#include "api/inspect.hpp"
#include "api/json.hpp"
#include "api/profile_json.hpp"
#include "api/tuning_json.hpp"
#include "cli/commands.hpp"
#include "cli/table.hpp"
#include "program/file.hpp"

namespace nibble::cli {
namespace {

Result<DeviceProfile> read_profile(const std::string& path) {
  TRY_ASSIGN(const std::string text, read_text(path));
  const auto json = Json::parse(text);
  if (const auto* list = json ? json->as<Json::Array>() : nullptr; list != nullptr && list->size() != 1) {
    return fail(ErrorCode::invalid_argument, "{} holds {} device profiles, but one is wanted", path, list->size());
  }
  auto profile = profile_from_json(text);
  if (!profile) return fail(profile.error().code, "{}: {}", path, profile.error().message);
  return profile;
}

Result<DeviceProfile> choose_profile(const InspectCommandOptions& options) {
  if (!options.device_profile.empty()) return read_profile(options.device_profile);
  if (!options.use_device) return DeviceProfile{};
  TRY_ASSIGN(const Device device, Device::open(options.device, options.engine));
  return profile_from_json(device.info().profile_json);
}

std::string describe(const HostValue& value) {
  if (value.is_int) return "integer";
  return fmt::format("{} {}{}", value.dtype, value.shape, value.dynamic ? " or smaller" : "");
}

std::string print_program(const Inspection& facts) {
  std::string text = fmt::format("{}: {}, method {}\n", facts.file, format_bytes(facts.file_bytes), facts.method);
  const auto section = [&](std::string_view title, const Table& table) {
    if (!table.empty()) text += fmt::format("\n{}\n{}", title, table.text("  "));
  };
  Table inputs("rll");
  for (std::size_t i = 0; i < facts.inputs.size(); ++i) {
    const auto& input = facts.inputs[i];
    std::string note = input.used ? "" : "not used";
    if (input.index_rows) note = fmt::format("ids below {}", *input.index_rows);
    inputs.row({std::to_string(i), describe(input.host), note});
  }
  section("inputs", inputs);
  Table outputs("rl");
  for (std::size_t i = 0; i < facts.outputs.size(); ++i) outputs.row({std::to_string(i), describe(facts.outputs[i])});
  section("outputs", outputs);
  Table methods("ll");
  for (const auto& method : facts.constant_methods) {
    methods.row({method.name, fmt::format("{}", fmt::join(method.values, ", "))});
  }
  section("constant methods", methods);
  Table ops("rll");
  for (const auto& op : facts.ops) ops.row({std::to_string(op.count), op.name, op.supported ? "" : "not supported"});
  section("operators", ops);
  return text;
}

std::string print_plan(const Inspection& facts) {
  const auto& plan = *facts.plan;
  Table table("lrl");
  if (plan.step) {
    table.row({"dispatches", std::to_string(plan.step->dispatches.size()),
               fmt::format("a call; at most {}", plan.max_dispatches)});
  } else {
    table.row({"dispatches", std::to_string(plan.max_dispatches), "at most"});
  }
  table.row({"pipelines", std::to_string(plan.pipelines), ""});
  table.row({"constants", format_bytes(plan.memory.constants),
             fmt::format("{} in the program, with {}", facts.constants, format_bytes(facts.constant_bytes))});
  table.row({"state", format_bytes(plan.memory.states), ""});
  table.row({"slots", format_bytes(plan.memory.slots),
             fmt::format("{} without sharing", format_bytes(plan.memory.slots_unshared))});
  table.row({"staging", format_bytes(plan.memory.staging), ""});
  return fmt::format("\nplan for {}\n{}", facts.device, table.text("  "));
}

std::string print_states(const std::vector<StateInfo>& states) {
  Table table("lll");
  for (const auto& state : states) {
    table.row({state.role, fmt::format("{} {}", state.dtype, state.shape),
               state.row_axis ? fmt::format("rows along axis {}", *state.row_axis) : ""});
  }
  return table.empty() ? "" : fmt::format("\nstate\n{}", table.text("  "));
}

std::string print_step(const Inspection::Step& step) {
  Table shapes("lrl");
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    shapes.row({"input", std::to_string(i), to_string(step.inputs[i])});
  }
  for (std::size_t i = 0; i < step.outputs.size(); ++i) {
    shapes.row({"output", std::to_string(i), to_string(step.outputs[i])});
  }
  return fmt::format("\ncall\n{}\n{}", shapes.text("  "), print_dispatches(step.dispatches));
}

std::string print_choices(std::span<const ChoiceInfo> choices) {
  Table table("rlllll");
  table.row({"nodes", "operator", "choice", "variant", "why", "of"});
  for (const auto& c : choices) {
    table.row(
        {std::to_string(c.nodes), c.op, c.choice, c.chosen, c.why, fmt::format("{}", fmt::join(c.possible, ", "))});
  }
  return fmt::format("\nvariants\n{}", choices.empty() ? "  no kernel comes in several\n" : table.text("  "));
}

/// One reason alone is said by the error.
std::string print_problems(const Refusals& problems) {
  if (problems.all.size() < 2) return "";
  Table table("rl");
  for (std::size_t i = 0; i < problems.all.size(); ++i) {
    const auto& [error, count] = problems.all[i];
    table.row({std::to_string(i + 1), error.message + (count > 1 ? fmt::format(" (at {} operators)", count) : "")});
  }
  return fmt::format("\nwhy it cannot run\n{}", table.text("  "));
}

}  // namespace

Result<InputShape> parse_input_shape(std::string_view text) {
  const auto wrong = [&] {
    return fail(ErrorCode::invalid_argument, "'{}' is no input shape; it must look like 0=1,7", text);
  };
  const auto number = [](std::string_view& rest, auto& value) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc{} || value < 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return true;
  };
  std::string_view rest = text;
  std::int64_t input = 0;
  Shape shape;
  if (!number(rest, input) || !rest.starts_with('=')) return wrong();
  rest.remove_prefix(1);
  for (bool first = true; !rest.empty(); first = false) {
    if (!first) {
      if (!rest.starts_with(',')) return wrong();
      rest.remove_prefix(1);
    }
    std::int64_t dim = 0;
    if (!number(rest, dim) || !shape.push_back(dim)) return wrong();
  }
  return InputShape{static_cast<std::size_t>(input), shape};
}

Status inspect_command(const InspectCommandOptions& options) {
  TRY_ASSIGN(const DeviceProfile profile, choose_profile(options));
  InspectOptions tuned = options;
  auto [rows, word] = usable_tuning(options.tuning, profile);
  tuned.tuning = std::move(rows);
  if (!word.empty()) say_notes({&word, 1});
  TRY_ASSIGN(const Inspection facts, inspect(options.model, profile, tuned));
  if (options.json) {
    print(to_json(facts, {.dispatches = options.plan, .variants = options.variants}) + '\n');
  } else {
    print(print_program(facts));
    if (facts.plan) print(print_states(facts.plan->states) + print_plan(facts));
    const bool has_step = facts.plan && facts.plan->step;
    if (options.variants && has_step) print(print_choices(facts.plan->step->choices));
    if (options.plan && has_step) print(print_step(*facts.plan->step));
    print(print_problems(facts.problems));
  }
  const auto& problems = facts.problems.all;
  if (problems.empty()) return {};
  const auto& [code, message] = problems.front().error;
  if (problems.size() == 1) return fail(code, "{}", message);
  return fail(code, "there are {} reasons why this program cannot run; the first: {}", problems.size(), message);
}

}  // namespace nibble::cli
