// What every variant of every choice does to memory at the shapes of whole models: counted from traces of some
// workgroups, for GPUs that execute 32 or 64 threads as one. Nothing is timed, so that any adapter will do.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "api/session.hpp"
#include "bench/audit_models.hpp"
#include "bench/harness.hpp"
#include "plan/alone.hpp"
#include "plan/stepper.hpp"
#include "support/run_traced.hpp"

namespace nibble::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kGroups = 2;       ///< that are traced, from the middle of the grid
constexpr std::uint32_t kAccesses = 6000;  ///< of a thread that are traced
constexpr double kMostForRuns = 1.1;       ///< sectors against useful bytes
constexpr double kMostForTiles = 1.3;
constexpr double kMostWays = 2;  ///< of a bank conflict
// A core of a GPU, for how many threads are in flight: what recent ones have, or less.
constexpr std::uint64_t kCoreThreads = 1024;
constexpr std::uint64_t kCoreGroups = 16;
constexpr std::uint64_t kCoreBytes = 65536;  ///< of workgroup memory

/// A node in a call.
struct NodeCase {
  const ModelPart* part = nullptr;
  std::string op;
  std::uint64_t times = 1;  ///< in the whole model
  std::uint64_t outputs = 0;
};

/// A variant of it; without a choice, the node as the table has it.
struct Picked {
  const Choice* choice = nullptr;
  std::size_t variant = 0;
  bool is_default = true;

  std::string text() const {
    return choice == nullptr ? "-" : fmt::format("{}={}", choice->name, choice->variants[variant].name);
  }
  bool is_for_gpus() const { return choice == nullptr || choice->variants[variant].best.adapters != Adapters::cpu; }
};

/// Bytes of the buffers at the live shapes, by binding.
using BindingBytes = std::vector<std::uint64_t>;

/// A node alone, planned for a GPU with so many threads to a subgroup.
struct Alone {
  std::uint32_t subgroup;
  std::shared_ptr<const Plan> plan;
  Stepper stepper;
  std::vector<gpu::Buffer> buffers{};
};

/// A dispatch as such a GPU would execute it.
struct Traced {
  test::TracedRun run;
  test::Counts counts;
};

class Auditor {
 public:
  explicit Auditor(const Device& device) : gpu_(*Internals::of(device)->gpu) {}

  void add(const ModelPart& part) {
    const auto plan = must(Plan::make(part.graph, profile(32), whole_dispatches(), ops::registry()));
    Stepper whole(plan);
    std::vector<std::vector<std::int32_t>> data;
    must(set_inputs(whole, part, nullptr, data));
    std::map<std::string, std::uint64_t> alike;
    std::map<std::string, std::uint32_t> first;
    std::vector<std::string> order;
    for (std::uint32_t n = 0; n < plan->graph().nodes.size(); ++n) {
      if (plan->storage().at_load[n] != 0 || whole.work(n) == 0) continue;
      const auto text = likeness(*plan, n, whole.live());
      if (++alike[text] > 1) continue;
      first[text] = n;
      order.push_back(text);
    }
    for (const auto& text : order) {
      add(*plan, first[text], whole.live(),
          {.part = &part, .op = plan->graph().nodes[first[text]].op, .times = alike[text] * part.times});
    }
  }

  const std::vector<Json>& rows() const { return rows_; }
  /// Dispatches that could not be traced.
  std::size_t failures() const { return failures_; }

  /// Variants that no node of the models can take.
  std::vector<std::string> missing() const {
    std::vector<std::string> names;
    for (const auto* choice : all_choices(ops::registry())) {
      for (std::size_t v = 0; v < choice->variants.size(); ++v) {
        const auto name = Picked{choice, v}.text();
        if (!seen_.contains(name)) names.push_back(name);
      }
    }
    return names;
  }

 private:
  DeviceProfile profile(std::uint32_t subgroup) const {
    auto profile = gpu_.profile();
    profile.kind = AdapterKind::discrete;
    profile.subgroup_min = profile.subgroup_max = subgroup;
    return profile;
  }
  static Options whole_dispatches() { return {.max_batch_work = std::numeric_limits<std::uint64_t>::max()}; }

  /// As in the whole plan, if `live` is given: the values of a node alone are those of the plan.
  static Status set_inputs(Stepper& stepper, const ModelPart& part, const LiveValues* live,
                           std::vector<std::vector<std::int32_t>>& data) {
    const auto& inputs = stepper.plan().layout().inputs;
    data.resize(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto value = inputs[i].value;
      if (inputs[i].is_symint) {
        TRY(stepper.set_int(i, live != nullptr ? live->ints[value] : part.position));
        continue;
      }
      const Shape shape = live != nullptr ? live->shapes[value] : inputs[i].bound;
      TRY(stepper.set_shape(i, shape));
      if (!inputs[i].host_read) continue;
      data[i].assign(static_cast<std::size_t>(shape.numel()), static_cast<std::int32_t>(part.position));
      stepper.set_host_data(i, data[i]);
    }
    return stepper.update();
  }

  void add(const Plan& plan, std::uint32_t node, const LiveValues& live, NodeCase one) {
    std::vector<std::vector<std::int32_t>> data;
    std::vector<Alone> all;
    for (const std::uint32_t subgroup : {32U, 64U}) {
      auto alone = must(Plan::lower(node_alone(plan, node), profile(subgroup), plan.preferences().with_all(),
                                    whole_dispatches(), ops::registry()));
      all.push_back({.subgroup = subgroup, .plan = alone, .stepper = Stepper(alone)});
      all.back().buffers.resize(alone->layout().buffers.size());
      must(set_inputs(all.back().stepper, *one.part, &live, data));
      fill_ids(all.back());
    }
    const auto last = static_cast<std::uint32_t>(all[0].plan->graph().nodes.size() - 1);
    auto& stepper = all[0].stepper;
    for (std::size_t i = 0; i < all[0].plan->layout().outputs.size(); ++i) {
      if (!all[0].plan->layout().outputs[i].is_symint)
        one.outputs += static_cast<std::uint64_t>(stepper.output_shape(i).numel());
    }
    const std::vector<Stepper::Chosen> choices(stepper.choices(last).begin(), stepper.choices(last).end());
    if (choices.empty()) trace(all, one, {});
    for (const auto& [choice, selected, facts, first] : choices) {
      for (std::size_t v = 0; v < choice->variants.size(); ++v) {
        if (v != selected && !is_right(*choice, v, facts, profile(32))) continue;
        for (auto& alone : all) {
          alone.stepper.force(choice, v);
          must(set_inputs(alone.stepper, *one.part, &live, data));
        }
        trace(all, one, {choice, v, v == selected});
      }
      for (auto& alone : all) alone.stepper.force(nullptr, 0);
    }
  }

  /// Ids differ, as those of a call do.
  void fill_ids(Alone& alone) {
    std::mt19937 random(1);
    for (const auto& input : alone.plan->layout().inputs) {
      if (input.is_symint || input.dtype != DType::i32 || input.checks.empty()) continue;
      std::vector<std::int32_t> ids(static_cast<std::size_t>(input.bound.numel()));
      for (auto& id : ids) id = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(input.checks[0].rows));
      gpu_.call().QueueWriteBuffer(gpu_.queue(), buffer(alone, input.buffer), 0, ids.data(), ids.size() * 4);
    }
  }

  WGPUBuffer buffer(Alone& alone, BufferId id) {
    auto& made = alone.buffers[id];
    if (!made) {
      made = must(gpu_.make_buffer(alone.plan->layout().buffers[id].bytes,
                                   WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst, "making a buffer"));
    }
    return made.get();
  }

  Result<Traced> trace(Alone& alone, const Dispatch& dispatch) {
    const auto& desc = alone.plan->layout().pipelines[dispatch.pipeline];
    std::vector<WGPUBuffer> bound;
    for (const auto id : std::span(dispatch.bindings).first(dispatch.binding_count)) bound.push_back(buffer(alone, id));
    const auto workgroup = static_cast<std::uint32_t>(desc.overrides[0].value);
    const auto groups = groups_of(dispatch);
    const auto traced = static_cast<std::uint32_t>(std::min<std::uint64_t>(kGroups, groups));
    const auto begin = static_cast<std::uint32_t>((groups - traced) / 2);
    const auto params = std::span(dispatch.params).first(dispatch.params_bytes);
    TRY_ASSIGN(auto run,
               test::run_traced(gpu_, desc, bound, params, begin, traced, workgroup, kAccesses, alone.subgroup));
    auto counts = test::count(run.kernel, run.trace, alone.subgroup);
    return Traced{std::move(run), std::move(counts)};
  }

  void trace(std::vector<Alone>& all, const NodeCase& one, const Picked& picked) {
    const auto failed_before = failures_;
    const auto& layout = all[0].plan->layout();
    const auto& dispatches = all[0].stepper.dispatches();
    for (std::size_t d = 0; d < dispatches.size(); ++d) {
      const auto& desc = layout.pipelines[dispatches[d]->pipeline];
      auto by_32 = trace(all[0], *dispatches[d]);
      if (!by_32) {
        fmt::print(stderr, "{}, {}: {}\n", one.op, picked.text(), by_32.error().message);
        ++failures_;
        continue;
      }
      // Where a kernel does not ask for its subgroup, the same threads do the same.
      auto by_64 = desc.wgsl.contains("subgroup_") ? must(trace(all[1], *all[1].stepper.dispatches()[d])).counts
                                                   : test::count(by_32->run.kernel, by_32->run.trace, 64);
      BindingBytes bytes;
      for (const auto id : std::span(dispatches[d]->bindings).first(dispatches[d]->binding_count)) {
        bytes.push_back(layout.buffers[id].bytes);
      }
      rows_.push_back(row(one, picked, *dispatches[d], desc.label, *by_32, by_64, bytes));
    }
    if (failures_ == failed_before) seen_.insert(picked.text());
  }

  static std::uint64_t groups_of(const Dispatch& dispatch) {
    return std::uint64_t{dispatch.grid[0]} * dispatch.grid[1] * dispatch.grid[2];
  }

  /// On one core, if there are workgroups enough. Registers, which may allow fewer, are the compiler's.
  static std::uint64_t threads_in_flight(const test::TracedRun& run) {
    std::uint64_t memory = 1;
    for (const auto& array : run.kernel.arrays) memory += array.bytes;
    return std::min({kCoreGroups, kCoreThreads / run.trace.workgroup, kCoreBytes / memory}) * run.trace.workgroup;
  }

  /// Sectors against useful bytes, for what is loaded: products that work in tiles load some of them for later.
  static double most_sectors(const Picked& picked, std::string_view label) {
    return picked.choice->name.starts_with("product") && label.contains("tile") ? kMostForTiles : kMostForRuns;
  }

  static bool has_goal(const Picked& picked) {
    if (picked.choice == nullptr || !picked.is_for_gpus()) return false;
    const auto name = picked.choice->name;
    return name.starts_with("product") || name.starts_with("attention") || name.starts_with("embedding");
  }

  static Json row(const NodeCase& one, const Picked& picked, const Dispatch& dispatch, const std::string& label,
                  const Traced& traced, const test::Counts& by_64, const BindingBytes& sizes) {
    const auto& [run, by_32] = traced;
    const auto groups = groups_of(dispatch);
    // All workgroups, and what of the traced ones had no room.
    const double scale = static_cast<double>(groups) / static_cast<double>(by_32.groups);
    const double rest =
        by_32.accesses == 0 ? 1 : static_cast<double>(by_32.all_accesses) / static_cast<double>(by_32.accesses);
    const auto outputs = static_cast<double>(std::max<std::uint64_t>(1, one.outputs));
    Json arrays = Json::array();
    Json shortfalls = Json::array();
    double moved = 0;
    double memory = 0;
    double asked = 0;
    for (const auto& array : by_32.arrays) asked += static_cast<double>(array.useful);
    for (std::size_t i = 0; i < run.kernel.arrays.size(); ++i) {
      const auto& array = run.kernel.arrays[i];
      const auto& a = by_32.arrays[i];
      const auto& b = by_64.arrays[i];
      if (a.useful == 0) continue;
      Json about{{"name", array.name}};
      if (array.is_workgroup) {
        // GPUs with 64 threads to a subgroup serve 32 of them at a time.
        about["conflict"] = a.worst_conflict;
        about["mean_conflict"] = static_cast<double>(a.rounds) / static_cast<double>(a.fewest_rounds);
        if (picked.is_for_gpus() && a.worst_conflict > kMostWays) {
          shortfalls.push_back(fmt::format("{}: conflicts of {:.0f} ways", array.name, a.worst_conflict));
        }
      } else {
        const double bytes = static_cast<double>(a.group_sectors * test::kSectorBytes) * scale * rest;
        const auto size = array.binding >= 1 && array.binding <= sizes.size() ? sizes[array.binding - 1] : 0;
        about["sectors_32"] = a.ratio();
        about["sectors_64"] = b.ratio();
        about["bytes"] = bytes;
        about["memory_bytes"] = std::min(bytes, static_cast<double>(size));
        about["is_stored"] = a.stores > 0;
        moved += bytes;
        memory += std::min(bytes, static_cast<double>(size));
        const double worst = std::max(a.ratio(), b.ratio());
        // What is a hundredth of the accesses does not matter.
        const bool is_judged = has_goal(picked) && a.loads > 0 && static_cast<double>(a.useful) > 0.01 * asked;
        if (is_judged && worst > most_sectors(picked, label)) {
          shortfalls.push_back(fmt::format("{}: {:.2f} of {:.1f}", array.name, worst, most_sectors(picked, label)));
        }
      }
      arrays.push_back(std::move(about));
    }
    // A gated product states its work twice over: its width is that of both halves already.
    const auto multiply_adds = 4 * dispatch.work / (one.op.ends_with("_gated") ? 2 : 1);
    const bool multiplies = picked.choice != nullptr && (picked.choice->name.starts_with("product") ||
                                                         picked.choice->name.starts_with("attention"));
    Json about{{"model", one.part->model},
               {"call", one.part->call},
               {"tokens", one.part->tokens},
               {"op", one.op},
               {"times", one.times},
               {"choice", picked.choice == nullptr ? "" : std::string(picked.choice->name)},
               {"variant", picked.choice == nullptr ? "" : std::string(picked.choice->variants[picked.variant].name)},
               {"is_default", picked.is_default},
               {"is_for_gpus", picked.is_for_gpus()},
               {"kernel", label},
               {"threads", groups * run.trace.workgroup},
               {"workgroup", run.trace.workgroup},
               {"threads_in_flight", threads_in_flight(run)},
               {"outputs", one.outputs},
               {"bytes_per_output", moved / outputs},
               {"memory_bytes", memory},
               {"multiply_adds", multiplies ? multiply_adds : 0},
               {"multiply_adds_per_output", multiplies ? static_cast<double>(multiply_adds) / outputs : 0},
               {"operations_per_output", static_cast<double>(by_32.operations) * scale / outputs},
               {"barriers", by_32.barriers},
               {"is_cut", by_32.is_cut()}};
    about["arrays"] = std::move(arrays);
    about["short"] = std::move(shortfalls);
    return about;
  }

  gpu::Device& gpu_;
  std::vector<Json> rows_;
  std::set<std::string> seen_;
  std::size_t failures_ = 0;
};

void print(const Json& row) {
  std::string sectors;
  std::string conflicts;
  for (const auto& array : row["arrays"]) {
    if (array.contains("sectors_32")) {
      sectors += fmt::format(" {} {:.2f}/{:.2f}", array["name"].get<std::string>(), array["sectors_32"].get<double>(),
                             array["sectors_64"].get<double>());
    } else {
      conflicts += fmt::format(" {} {:.0f}", array["name"].get<std::string>(), array["conflict"].get<double>());
    }
  }
  fmt::print("{:<12} {:<10} {:<30} {:<34} {:<22} {:>9} {:>2} {:>8.1f} {:>8.1f} {:>8.1f} {}{}{}\n",
             row["model"].get<std::string>(), row["call"].get<std::string>(), row["op"].get<std::string>(),
             row["choice"].get<std::string>() + "=" + row["variant"].get<std::string>() +
                 (row["is_default"].get<bool>()    ? " *"
                  : row["is_for_gpus"].get<bool>() ? ""
                                                   : " (cpu)"),
             row["kernel"].get<std::string>(), row["threads"].get<std::uint64_t>(), row["barriers"].get<int>(),
             row["bytes_per_output"].get<double>(), row["multiply_adds_per_output"].get<double>(),
             row["operations_per_output"].get<double>(), sectors, conflicts.empty() ? "" : ";" + conflicts,
             row["is_cut"].get<bool>() ? " (cut)" : "");
  for (const auto& reason : row["short"]) fmt::print("    SHORT {}\n", reason.get<std::string>());
}

int run(int argc, char** argv) {
  CLI::App app{"Counts what kernels do to memory, from traces of some of their workgroups."};
  BenchOptions options{.json = {}, .device = {}, .rounds = 3};
  options.add_to(app);
  std::string model;
  app.add_option("--model", model, "Only models whose name has this in it");
  CLI11_PARSE(app, argc, argv);
  const auto device = must(Device::open(options.device));
  Auditor auditor(device);
  fmt::print("{} workgroups of each dispatch are traced, on {}; sectors for 32 / 64 threads; * is the table's choice\n",
             kGroups, device.info().name);
  fmt::print("{:<12} {:<10} {:<30} {:<34} {:<22} {:>9} {:>2} {:>8} {:>8} {:>8}  sectors; bank conflicts\n", "model",
             "call", "op", "choice=variant", "kernel", "threads", "b", "B/out", "MAC/out", "ops/out");
  std::size_t printed = 0;
  std::size_t falls_short = 0;
  for (const auto& part : model_parts()) {
    if (!part.model.contains(model)) continue;
    auditor.add(part);
    for (; printed < auditor.rows().size(); ++printed) {
      print(auditor.rows()[printed]);
      falls_short += auditor.rows()[printed]["short"].empty() ? 0 : 1;
    }
  }
  fmt::print("{} dispatches, {} fall short of a goal\n", printed, falls_short);
  for (const auto& name : auditor.missing()) fmt::print("no node of these models takes {}\n", name);
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << Json{{"rows", auditor.rows()}, {"missing", auditor.missing()}}.dump(1) << "\n";
    if (!file.good()) die("cannot write " + options.json);
  }
  if (auditor.failures() > 0) die(fmt::format("{} dispatches could not be traced", auditor.failures()));
  return 0;
}

}  // namespace
}  // namespace nibble::bench

int main(int argc, char** argv) { return nibble::bench::run(argc, argv); }
