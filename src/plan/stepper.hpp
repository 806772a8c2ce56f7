// Plan: a graph made ready for one kind of device. Stepper: one user's live shapes, and what a call with them does.
#pragma once

#include <memory>

#include "nibble/options.hpp"
#include "plan/pipeline_table.hpp"
#include "plan/plan.hpp"
#include "plan/storage.hpp"

namespace nibble {

/// Immutable after make(), shared by all sessions of a model.
class Plan {
 public:
  /// Checks the graph against every op's rules at its largest shapes, runs the passes and lays out memory.
  /// All names that no op implements are reported at once.
  static Result<std::shared_ptr<const Plan>> make(Graph graph, DeviceProfile profile, const Options& options,
                                                  Registry registry);

  const Graph& graph() const { return graph_; }  ///< after the passes
  const DeviceProfile& profile() const { return profile_; }
  const Layout& layout() const { return layout_; }
  const Storage& storage() const { return storage_; }

 private:
  friend class Stepper;
  friend class OpContext;
  friend class PlanMaker;

  Graph graph_;
  DeviceProfile profile_;
  Layout layout_;
  Storage storage_;
  PipelineTable pipelines_;
  std::vector<const OpEntry*> ops_;                ///< per node
  std::vector<std::vector<ValueId>> node_inputs_;  ///< tensors and SymInts that a node's lowering depends on
  std::vector<std::vector<ValueId>> node_outputs_;
};

/// What a fault in a node's dispatches means: one site for each tensor of indices that kernels check.
struct FaultSite {
  std::string_view arg;
  ValueId indices = 0;
  std::int64_t rows = 0;
};

/// One call at a time. In the steady state nothing here allocates.
class Stepper {
 public:
  explicit Stepper(std::shared_ptr<const Plan> plan);

  const Plan& plan() const { return *plan_; }

  /// The live shape of tensor input `input`: same rank as its bound, no dimension larger.
  Status set_shape(std::size_t input, const Shape& shape);
  /// The value of SymInt input `input`.
  Status set_int(std::size_t input, std::int64_t value);
  /// The elements of an input with `host_read`; they must stay readable until update() returns.
  void set_host_data(std::size_t input, std::span<const std::int32_t> elements);

  /// Lowers again whatever depends on what changed since the last update.
  Status update();

  /// Valid until the next update(). The i-th dispatch's parameters are params() from i * kParamsStride on.
  std::span<const Dispatch* const> dispatches() const { return order_; }
  std::span<const std::byte> params() const { return params_; }
  /// Grows whenever dispatches() or params() changed.
  std::uint64_t version() const { return version_; }
  /// Pipelines that dispatches() may name: those of the Layout first, then any found since.
  std::span<const PipelineDesc> pipelines() const { return pipelines_.descs(); }

  Shape input_shape(std::size_t input) const;
  Shape output_shape(std::size_t output) const;
  std::int64_t output_int(std::size_t output) const;

  /// The error for a fault record (kFaultWords words, the first not 0).
  Error describe_fault(std::span<const std::uint32_t, kFaultWords> words) const;
  /// The error for a bad index found on the host; `position` is flat.
  Error describe_index(const IndexCheck& check, std::size_t input, std::uint64_t position, std::int64_t value) const;

 private:
  friend class OpContext;
  friend class PlanMaker;

  Status lower(std::uint32_t node);

  struct NodeStep {
    std::vector<Dispatch> dispatches;
    std::vector<FaultSite> faults;
  };

  std::shared_ptr<const Plan> plan_;
  PipelineTable pipelines_;
  std::vector<Shape> shapes_;          ///< live shape of each tensor value
  std::vector<std::int64_t> ints_;     ///< value of each SymInt
  std::vector<std::uint8_t> changed_;  ///< values that changed since the last update
  std::vector<NodeStep> nodes_;
  std::vector<std::span<const std::int32_t>> host_data_;
  std::vector<const Dispatch*> order_;
  std::vector<std::byte> params_;
  std::uint64_t version_ = 0;
  bool all_changed_ = true;
};

}  // namespace nibble
