// A graph made ready for one kind of device.
#pragma once

#include <memory>

#include "graph/stop.hpp"
#include "nibble/options.hpp"
#include "plan/layout.hpp"
#include "plan/ledger.hpp"
#include "plan/lowering.hpp"
#include "plan/pipeline_table.hpp"
#include "plan/refusals.hpp"
#include "plan/storage.hpp"

namespace nibble {

/// A choice between variants that a node makes.
struct ChoiceMade {
  const Choice* choice = nullptr;
  std::vector<std::size_t> possible;  ///< variants that calls may select
  std::uint32_t node = 0;
};

/// What a plan is made of.
struct PlanParts {
  Graph graph;  ///< after the passes
  DeviceProfile profile;
  Preferences preferences;
  Layout layout;
  Storage storage;
  PipelineTable pipelines;
  std::vector<NodeOps> ops;             ///< per node
  std::vector<Operands> operands;       ///< per node: tensors and SymInts that its lowering depends on and makes
  std::vector<std::uint8_t> fixed;      ///< per value
  std::vector<std::uint8_t> rewritten;  ///< per value: several nodes, or the caller and a node, set its shape or number
  bool rewrites = false;                ///< some value is rewritten
  std::vector<std::uint32_t> spare;     ///< per node: dispatches that are there for pieces of others
  std::vector<ChoiceMade> choices;
  Ledger ledger{Options()};
};

/// Immutable, shared by all sessions of a model.
class Plan {
 public:
  explicit Plan(PlanParts parts) : parts_(std::move(parts)) {}

  /// Graph → passes → lower: binds every node to its op, runs the passes, lowers every node at its largest shapes and
  /// lays out memory. One error lists all unknown ops. Whoever wants to stop it is asked between passes and nodes.
  static Result<std::shared_ptr<const Plan>> make(Graph graph, DeviceProfile profile, const Options& options,
                                                  Registry registry, IsStopWanted is_stop_wanted = nullptr);
  /// The last step of make(): of a graph whose passes have run, all nodes with their signatures.
  static Result<std::shared_ptr<const Plan>> lower(Graph graph, DeviceProfile profile, Preferences preferences,
                                                   const Options& options, Registry registry);
  /// All reasons why make() fails on a graph: behind an operator that is refused, planning goes on with the shapes that
  /// the program states. Empty if make() succeeds.
  static Refusals refusals(Graph graph, DeviceProfile profile, Options options, Registry registry);

  const Graph& graph() const { return parts_.graph; }
  const DeviceProfile& profile() const { return parts_.profile; }
  const Preferences& preferences() const { return parts_.preferences; }
  const Layout& layout() const { return parts_.layout; }
  const Storage& storage() const { return parts_.storage; }
  const PipelineTable& pipelines() const { return parts_.pipelines; }
  std::span<const Operands> operands() const { return parts_.operands; }
  std::span<const ChoiceMade> choices() const { return parts_.choices; }
  /// Per node: how many dispatches more a call may take if it cuts some into pieces.
  std::span<const std::uint32_t> spare_dispatches() const { return parts_.spare; }
  /// What the program takes of each limit.
  const Ledger& ledger() const { return parts_.ledger; }
  /// Some value has different shapes or numbers within a call, so every call lowers all nodes.
  bool rewrites() const { return parts_.rewrites; }
  /// What lowerings see.
  Planned planned() const { return {parts_.graph, parts_.profile, parts_.storage, parts_.ops, parts_.fixed}; }

 private:
  PlanParts parts_;
};

}  // namespace nibble
