#include "api/inspect.hpp"

#include <algorithm>
#include <unordered_map>

#include "api/describe.hpp"
#include "api/json.hpp"
#include "boundary/boundary.hpp"
#include "ops/registry.hpp"
#include "program/file.hpp"

namespace nibble {
namespace {

void note_dtypes(const Graph& graph, const Node& node, const Signature& signature, Inspection::Op& op) {
  for_each_operand(graph, node, signature, [&](ValueId v, const Arg& arg) {
    if (const auto* tensor = graph.tensor(v)) op.dtypes[arg.name].insert(tensor->dtype);
  });
}

void count_graph(const Graph& graph, Inspection& facts) {
  facts.constants += graph.constants.size();
  for (const auto& constant : graph.constants) facts.constant_bytes += constant.length;
  const Registry registry = ops::registry();
  std::unordered_map<std::string, std::size_t> place;
  for (std::size_t i = 0; i < facts.ops.size(); ++i) place.emplace(facts.ops[i].name, i);
  for (const auto& node : graph.nodes) {
    const Op* op = find_op(registry, node.op);
    const auto [found, is_new] = place.emplace(node.op, facts.ops.size());
    if (is_new) facts.ops.push_back({node.op, 0, op != nullptr});
    ++facts.ops[found->second].count;
    if (op != nullptr) note_dtypes(graph, node, op->signature, facts.ops[found->second]);
  }
}

/// The call that is asked for: inputs have their largest shapes, and integers are 0, unless said otherwise.
Result<std::vector<TakenInput>> take_inputs(const Boundary& boundary, const InspectOptions& options) {
  const auto& inputs = boundary.signature().inputs;
  std::vector<GivenInput> given;
  std::size_t next = 0;
  for (const auto& [dtype, shape, dynamic, is_int] : inputs) {
    // A method may pass an integer of its graph as a tensor of one element: its value is not known here.
    given.push_back({.dtype = dtype, .shape = shape, .integer = 0});
    if (!is_int) continue;
    given.back().kind = GivenInput::Kind::number;
    if (next < options.ints.size()) given.back().integer = options.ints[next++];
  }
  if (next < options.ints.size()) {
    return fail(ErrorCode::invalid_argument, "{} integers were given, but the program has {} integer inputs",
                options.ints.size(), next);
  }
  for (const auto& [input, shape] : options.shapes) {
    if (input >= inputs.size()) {
      return fail(ErrorCode::invalid_argument, "there is no input {}: the program has {}", input, inputs.size());
    }
    given[input] = {.dtype = inputs[input].dtype, .shape = shape};
  }
  std::vector<TakenInput> taken(inputs.size());
  TRY(boundary.take(given, taken));
  return taken;
}

Result<Inspection::Step> make_step(const Boundary& boundary, const InspectOptions& options) {
  Stepper stepper(boundary.plan());
  TRY_ASSIGN(const auto taken, take_inputs(boundary, options));
  TRY(boundary.set(stepper, taken));
  TRY(stepper.update());
  Inspection::Step step;
  for (const auto& input : taken) step.inputs.push_back(input.shape);
  for (const auto& source : boundary.signature().output_sources) {
    switch (source.kind) {
      case OutputSource::Kind::graph: step.outputs.push_back(stepper.output_shape(source.index)); break;
      case OutputSource::Kind::input: step.outputs.push_back(step.inputs[source.index]); break;
      case OutputSource::Kind::constant: step.outputs.emplace_back(); break;
    }
  }
  step.dispatches = describe_dispatches(stepper);
  step.choices = describe_choices(stepper);
  return step;
}

Status make_plan(Program program, const DeviceProfile& profile, const InspectOptions& options, Inspection& facts) {
  TRY_ASSIGN(const auto plan, Plan::make(std::move(program.graph), profile, options, ops::registry()));
  const Boundary boundary(std::move(program.signature), plan);
  facts.outputs = boundary.signature().outputs;
  for (std::size_t i = 0; i < facts.inputs.size(); ++i) {
    const auto index = boundary.signature().graph_inputs[i];
    if (index < 0) continue;
    for (const auto& check : plan->layout().inputs[static_cast<std::size_t>(index)].checks) {
      auto& rows = facts.inputs[i].index_rows;
      rows = std::min(rows.value_or(check.rows), check.rows);
    }
  }
  facts.plan = Inspection::PlanFacts{.memory = measure_memory(*plan),
                                     .pipelines = plan->layout().pipelines.size(),
                                     .max_dispatches = plan->layout().max_dispatches,
                                     .states = {},
                                     .step = std::nullopt};
  for (const auto& state : plan->layout().states) facts.plan->states.push_back(state_info(state, 0));
  TRY_ASSIGN(facts.plan->step, make_step(boundary, options));
  return {};
}

/// A method that Nibble alone does not run, because it is more than one delegate call: what its delegates hold, and
/// what speaks against each of them.
Status inspect_delegates(const File& file, Error why, const DeviceProfile& profile, const InspectOptions& options,
                         Inspection& facts) {
  if (why.code != ErrorCode::unsupported) return std::unexpected(std::move(why));
  TRY_ASSIGN(const FileProgram program, copy_program(file));
  TRY_ASSIGN(auto delegates, read_delegates(program.bytes.bytes(), program.head, options.method));
  auto& [shared, blobs] = delegates;
  if (blobs.empty()) return std::unexpected(std::move(why));
  facts.problems.add(std::move(why));
  for (std::size_t i = 0; i < blobs.size(); ++i) {
    Refusals refusals;
    if (auto graph = read_blob(file, blobs[i].offset, blobs[i].size, named_sizes(shared))) {
      count_graph(*graph, facts);
      refusals = Plan::refusals(std::move(*graph), profile, options, ops::registry());
    } else {
      refusals.add(std::move(graph).error());
    }
    for (auto& [error, count] : refusals.all) {
      if (blobs.size() > 1) error.message = fmt::format("delegate {}: {}", i, error.message);
      facts.problems.all.push_back({std::move(error), count});
    }
  }
  facts.method = std::move(shared.method);
  facts.constant_methods = std::move(shared.constant_methods);
  return {};
}

Json to_json(const Shape& shape) { return shape.dims(); }

Json to_json(const HostValue& value) {
  if (value.is_int) return {{"kind", "int"}};
  return {{"kind", "tensor"},
          {"dtype", to_string(value.dtype)},
          {"shape", to_json(value.shape)},
          {"dynamic", value.dynamic}};
}

Json to_json(const Inspection::Input& input) {
  Json json = to_json(input.host);
  json["used"] = input.used;
  if (input.index_rows) json["index_rows"] = *input.index_rows;
  return json;
}

Json to_json(const Inspection::Op& op) {
  Json dtypes = Json::object();
  for (const auto& [arg, all] : op.dtypes) {
    for (const DType dtype : all) dtypes[std::string(arg)].push_back(to_string(dtype));
  }
  return {{"name", op.name}, {"count", op.count}, {"supported", op.supported}, {"dtypes", std::move(dtypes)}};
}

Json to_json(const DispatchInfo& dispatch) {
  Json bindings = Json::array();
  for (const auto& b : dispatch.bindings) {
    bindings.push_back({{"buffer", b.buffer},
                        {"role", to_string(b.role)},
                        {"access", b.access == Access::read ? "read" : "read_write"},
                        {"bytes", b.bytes}});
  }
  return {{"node", dispatch.node},
          {"op", dispatch.op},
          {"kernel", dispatch.kernel},
          {"grid", dispatch.grid},
          {"first_group", dispatch.first_group},
          {"workgroup", dispatch.workgroup},
          {"bindings", std::move(bindings)}};
}

Json to_json(const ChoiceInfo& choice) {
  return {{"op", choice.op},         {"nodes", choice.nodes}, {"choice", choice.choice},
          {"chosen", choice.chosen}, {"why", choice.why},     {"possible", choice.possible}};
}

Json to_json(const Inspection::PlanFacts& plan, InspectDetails details) {
  Json json = {{"pipelines", plan.pipelines},
               {"max_dispatches", plan.max_dispatches},
               {"memory",
                {{"constants", plan.memory.constants},
                 {"states", plan.memory.states},
                 {"slots", plan.memory.slots},
                 {"slots_unshared", plan.memory.slots_unshared},
                 {"staging", plan.memory.staging}}},
               {"states", Json::array()},
               {"step", nullptr}};
  for (const auto& state : plan.states) json["states"].push_back(to_json(state));
  if (!plan.step) return json;
  Json step = {{"inputs", Json::array()}, {"outputs", Json::array()}, {"dispatch_count", plan.step->dispatches.size()}};
  for (const auto& shape : plan.step->inputs) step["inputs"].push_back(to_json(shape));
  for (const auto& shape : plan.step->outputs) step["outputs"].push_back(to_json(shape));
  if (details.variants) {
    step["variants"] = Json::array();
    for (const auto& c : plan.step->choices) step["variants"].push_back(to_json(c));
  }
  if (details.dispatches) {
    step["dispatches"] = Json::array();
    for (const auto& d : plan.step->dispatches) step["dispatches"].push_back(to_json(d));
  }
  json["step"] = std::move(step);
  return json;
}

}  // namespace

Result<Inspection> inspect(const std::string& path, const DeviceProfile& profile, const InspectOptions& options) {
  TRY_ASSIGN(const File file, File::open(path));
  Inspection facts;
  facts.file = path;
  facts.file_bytes = file.size();
  facts.device = profile.name;
  auto program = read_program(file, options.method);
  if (!program) {
    TRY(inspect_delegates(file, std::move(program).error(), profile, options, facts));
    return facts;
  }
  facts.method = std::move(program->method);
  const MethodSignature& signature = program->signature;
  for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
    facts.inputs.push_back({signature.inputs[i], signature.graph_inputs[i] >= 0, std::nullopt});
  }
  facts.outputs = signature.outputs;
  facts.constant_methods = std::move(program->constant_methods);
  count_graph(program->graph, facts);

  const Graph graph = program->graph;
  if (auto planned = make_plan(std::move(*program), profile, options, facts); !planned) {
    if (!facts.plan) facts.problems = Plan::refusals(graph, profile, options, ops::registry());
    if (facts.problems.all.empty()) facts.problems.add(std::move(planned).error());
  }
  return facts;
}

std::string to_json(const Inspection& facts, InspectDetails details) {
  Json json = {{"file", facts.file},       {"file_bytes", facts.file_bytes},
               {"method", facts.method},   {"inputs", Json::array()},
               {"outputs", Json::array()}, {"constant_methods", Json::object()},
               {"ops", Json::array()},     {"constants", {{"count", facts.constants}, {"bytes", facts.constant_bytes}}},
               {"device", facts.device},   {"plan", nullptr},
               {"problem", nullptr},       {"problems", Json::array()}};
  for (const auto& input : facts.inputs) json["inputs"].push_back(to_json(input));
  for (const auto& output : facts.outputs) json["outputs"].push_back(to_json(output));
  for (const auto& method : facts.constant_methods) json["constant_methods"].append(method.name, to_json(method));
  for (const auto& op : facts.ops) json["ops"].push_back(to_json(op));
  if (facts.plan) json["plan"] = to_json(*facts.plan, details);
  for (const auto& [error, count] : facts.problems.all) {
    json["problems"].push_back({{"reason", error.message}, {"operators", count}});
  }
  if (!facts.problems.all.empty()) json["problem"] = facts.problems.all.front().error.message;
  return json.dump(2);
}

}  // namespace nibble
