// The live shapes of one session, and what a call with them does.
#pragma once

#include "plan/lowering.hpp"
#include "plan/plan.hpp"

namespace nibble {

/// One call at a time. In the steady state nothing here allocates.
class Stepper {
 public:
  explicit Stepper(std::shared_ptr<const Plan> plan);

  /// What is computed at load, once, after the uploads: the dispatches of nodes that depend on constants alone.
  static Result<std::vector<Dispatch>> preparation(std::shared_ptr<const Plan> plan);

  const Plan& plan() const { return *plan_; }

  /// The live shape of tensor input `input`: same rank as its bound, no dimension larger.
  Status set_shape(std::size_t input, const Shape& shape);
  /// The value of SymInt input `input`.
  Status set_int(std::size_t input, std::int64_t value);
  /// The elements of an input with `host_read`; they must stay readable until update() returns.
  void set_host_data(std::size_t input, std::span<const std::int32_t> elements);

  /// Lowers the nodes that depend on something that changed since the last update.
  Status update();

  /// Valid until the next update(). The i-th dispatch's parameters are params() from i * kParamsStride on.
  std::span<const Dispatch* const> dispatches() const { return order_; }
  std::span<const std::byte> params() const { return params_; }
  /// The ends of the batches of dispatches() that are submitted one after the other.
  std::span<const std::uint32_t> batches() const { return batches_; }
  /// Increases whenever dispatches(), params() or batches() changed.
  std::uint64_t version() const { return version_; }

  /// A choice that a node made, and the variant that it selected.
  struct Chosen {
    const Choice* choice = nullptr;
    std::size_t variant = 0;
    Facts facts{};
    std::size_t first = 0;  ///< of the node's dispatches, the first one after it
  };
  std::span<const Chosen> choices(std::uint32_t node) const { return nodes_[node].choices; }
  /// From the next update() on, the choice selects this variant wherever it is right; null: none does. The plan must be
  /// one for all variants, see Preferences::with_all().
  void force(const Choice* choice, std::size_t variant);
  /// Of a node in the call that was last planned: about how much it does, or some of its dispatches, see batches.hpp.
  std::uint64_t work(std::uint32_t node, std::size_t first = 0, std::size_t end = kAll) const;
  static constexpr auto kAll = std::numeric_limits<std::size_t>::max();
  const LiveValues& live() const { return live_; }

  Shape input_shape(std::size_t input) const;
  Shape output_shape(std::size_t output) const;
  std::int64_t output_int(std::size_t output) const;
  /// How many rows of Layout::states[state] are in use after the call; 0 where it has no row axis.
  std::int64_t state_rows(std::size_t state) const;

  /// The error for a fault record (kFaultWords words, the first not 0).
  Error describe_fault(std::span<const std::uint32_t, kFaultWords> words) const;
  /// The error for a bad index found on the host; `position` is flat.
  Error describe_index(const IndexCheck& check, std::size_t input, std::uint64_t position, std::int64_t value) const;

 private:
  /// Lowers a node for a call.
  class Call;

  struct NodeStep {
    std::vector<Dispatch> dispatches;
    std::size_t first = 0;              ///< its first dispatch's position in order_
    std::vector<PipelineId> pipelines;  ///< of the node's kernels in the last call: likely the same again
    std::vector<FaultSite> faults;
    std::vector<Chosen> choices;
  };

  Status lower(std::uint32_t node);
  /// Puts the dispatches of all nodes in order.
  Status arrange();
  void write_params(const NodeStep& step);

  std::shared_ptr<const Plan> plan_;
  LiveValues live_;
  std::vector<NodeStep> nodes_;
  std::vector<std::int64_t> state_rows_;  ///< per value
  std::vector<const Dispatch*> order_;
  std::vector<std::byte> params_;
  std::vector<std::uint32_t> batches_;
  std::uint64_t version_ = 0;
  bool all_changed_ = true;
  const Choice* forced_ = nullptr;
  std::size_t forced_variant_ = 0;
};

}  // namespace nibble
