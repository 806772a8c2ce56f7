#include "plan/explorer.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "plan/batches.hpp"
#include "plan/pieces.hpp"

namespace nibble {
namespace {

/// What pieces may add to the dispatches of a call: parameters of 16 MiB, and hours of work.
constexpr std::uint64_t kMostSpare = 65536;

/// Enumerates all combinations of variants, like an odometer. A choice that a node makes more than once counts as one
/// digit, because its kernels do not depend on each other.
class Combinations {
 public:
  std::size_t turn(const Choice& choice, std::size_t options) {
    auto found = std::ranges::find(digits_, &choice, &Digit::choice);
    if (found == digits_.end()) found = digits_.insert(digits_.end(), {&choice, 0, 0});
    found->options = std::max(found->options, options);
    return std::min(found->turn, options - 1);
  }

  /// False after the last combination.
  bool next() {
    while (!digits_.empty() && digits_.back().turn + 1 >= digits_.back().options) digits_.pop_back();
    if (digits_.empty()) return false;
    ++digits_.back().turn;
    digits_.back().options = 0;
    return true;
  }

 private:
  struct Digit {
    const Choice* choice;
    std::size_t turn;
    std::size_t options;
  };
  std::vector<Digit> digits_;
};

/// What is known at load of a node's inputs.
enum class Known : std::uint8_t {
  shapes,   ///< no call has others
  bounds,   ///< no call has larger shapes
  nothing,  ///< depends on the caller's integers
};

/// Records what one lowering of a node needs.
class Probe final : public Sink {
 public:
  Probe(PlanParts& parts, Combinations& combinations, std::uint32_t node, Known known)
      : parts_(parts), combinations_(combinations), node_(node), known_(known) {}

  std::uint64_t scratch_bytes = 0;
  std::uint32_t dispatches = 0;
  std::uint32_t spare = 0;  ///< dispatches more, if those with much work are cut into pieces
  std::vector<std::pair<std::size_t, IndexCheck>> checks;
  std::vector<std::pair<ValueId, std::int32_t>> row_axes;

  std::size_t choose(const Choice& choice, const Facts& facts) override {
    const auto possible = parts_.preferences.possible(choice, facts, parts_.profile);
    remember(choice, possible);
    return possible[combinations_.turn(choice, possible.size())];
  }

  Status dispatch(const Kernel& kernel) override {
    ++dispatches;
    // Counted as far as this lowering goes; what the node takes is paid once, behind it.
    Account most = parts_.ledger.dispatches;
    TRY(most.pay(dispatches));
    const auto known = parts_.pipelines.descs().size();
    if (auto status = intern_all(kernel); !status) {
      const auto& [code, message] = status.error();
      return code == ErrorCode::internal ? status : fail(code, "{}: {}", name(), message);
    }
    for (const auto& desc : parts_.pipelines.descs().subspan(known)) {
      TRY(parts_.ledger.host.pay(sizeof(PipelineDesc) + desc.wgsl.size()));
    }
    spare += pieces_of(kernel) - 1;
    return {};
  }

  Status reserve(std::uint64_t bytes) override {
    scratch_bytes = std::max(scratch_bytes, bytes);
    return {};
  }

  void check_input(std::size_t input, const IndexCheck& check) override { checks.emplace_back(input, check); }
  std::uint32_t add_fault_site(const FaultSite&) override { return sites_++; }
  void use_rows(ValueId state, std::size_t axis, std::int64_t) override {
    row_axes.emplace_back(state, static_cast<std::int32_t>(axis));
  }

 private:
  std::string_view name() const { return parts_.graph.nodes[node_].name(); }

  /// WebGPU does not let a dispatch write a buffer that another of its bindings shows, too.
  static Status check_bindings(const Kernel& kernel) {
    for (std::size_t i = 0; i < kernel.bind.size(); ++i) {
      for (std::size_t k = i + 1; k < kernel.bind.size(); ++k) {
        const BufferArg& a = kernel.bind[i];
        const BufferArg& b = kernel.bind[k];
        const bool is_written = a.format.access != Access::read || b.format.access != Access::read;
        if (is_written && a.buffer == b.buffer)
          return fail(ErrorCode::unsupported, "{} and {} are one memory, which is written", a.format.name,
                      b.format.name);
      }
    }
    return {};
  }

  Status intern_all(const Kernel& kernel) {
    TRY(check_bindings(kernel));
    // Fails if a dispatch is too large for a grid; this shows at the largest shapes.
    TRY(grid_for(kernel.threads, kernel.workgroup, parts_.profile.limits));
    if (known_ == Known::shapes) return kernel.threads == 0 ? Status{} : intern(kernel, kernel.threads);
    TRY(intern(kernel, 1));
    return intern(kernel, std::max(kernel.threads, largest_binding(kernel)));
  }

  Status intern(const Kernel& kernel, std::uint64_t threads) {
    TRY_ASSIGN(const auto workgroup, workgroup_for(kernel, threads, parts_.profile));
    return parts_.pipelines.intern(kernel, workgroup, parts_.profile, name());
  }

  /// Of the kernel in a call with the most work.
  std::uint32_t pieces_of(const Kernel& kernel) const {
    const auto most = parts_.layout.batch_work;
    auto work = work_of(kernel);
    if (known_ == Known::nothing) {
      // Without loops, a thread has four bytes at least.
      const Size least = Size(largest_binding(kernel)).div_up(4) * kernel.bind.size();
      if (!kernel.most_work.valid() || !least.valid()) return Pieces::kMost;
      work = std::max({work, kernel.most_work.unchecked(), least.unchecked()});
      return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(work / most + 1, 1, Pieces::kMost));
    }
    if (work <= most) return 1;
    const auto& limits = parts_.profile.limits;
    const auto workgroup = workgroup_for(kernel, kernel.threads, parts_.profile);
    const auto grid = grid_for(kernel.threads, workgroup.value_or(kernel.workgroup), limits);
    return grid ? Pieces(kernel.threads, *grid, work, most, Pieces::kMost, limits).count() : 1;
  }

  /// No kernel has more threads than its largest buffer has bytes.
  std::uint64_t largest_binding(const Kernel& kernel) const {
    std::uint64_t largest = scratch_bytes;
    for (const auto& b : kernel.bind) {
      if (b.buffer.kind == BufferRef::Kind::entry) {
        largest = std::max(largest, parts_.storage.entries[b.buffer.entry].bytes);
      }
    }
    return largest;
  }

  void remember(const Choice& choice, std::span<const std::size_t> possible) {
    const auto is_same = [&](const ChoiceMade& made) { return made.node == node_ && made.choice == &choice; };
    auto found = std::ranges::find_if(parts_.choices.rbegin(), parts_.choices.rend(),
                                      [&](const ChoiceMade& made) { return made.node != node_ || is_same(made); });
    if (found == parts_.choices.rend() || !is_same(*found)) {
      parts_.choices.push_back({&choice, {}, node_});
      found = parts_.choices.rbegin();
    }
    for (auto v : possible) {
      if (std::ranges::find(found->possible, v) == found->possible.end()) found->possible.push_back(v);
    }
  }

  PlanParts& parts_;
  Combinations& combinations_;
  std::uint32_t node_;
  Known known_;
  std::uint32_t sites_ = 0;
};

class Explorer {
 public:
  Explorer(PlanParts& parts, IsStopWanted is_stop_wanted)
      : parts_(parts), live_(parts.graph), unknown_(parts.graph.values.size()), stop_(is_stop_wanted) {
    const Graph& g = parts_.graph;
    needs_.scratch_bytes.resize(g.nodes.size());
    parts_.spare.assign(g.nodes.size(), 0);
    parts_.fixed.assign(g.values.size(), 0);
    for (ValueId v = 0; v < g.values.size(); ++v) {
      const auto* t = g.tensor(v);
      if (t != nullptr && (t->constant >= 0 || t->fixed) && parts_.rewritten[v] == 0) parts_.fixed[v] = 1;
    }
    for (auto v : g.inputs) unknown_[v] = std::holds_alternative<SymInt>(g.values[v]);
  }

  Result<Needs> run(Refusals* refusals) {
    for (std::uint32_t n = 0; n < parts_.graph.nodes.size(); ++n) {
      auto status = explore(n);
      TRY(stop_.after(0));  // whoever heard it may have taken it for a refusal
      if (status) continue;
      if (refusals == nullptr) return std::unexpected(std::move(status).error());
      refusals->add(std::move(status).error());
      forget(n, true);
    }
    TRY(plan_pieces());
    return std::move(needs_);
  }

 private:
  std::span<const ValueId> inputs(std::uint32_t n) const { return parts_.operands[n].inputs; }

  Status explore(std::uint32_t n) {
    const bool reads_data = parts_.operands[n].reads_data;
    const bool is_fixed = !reads_data && std::ranges::all_of(inputs(n), [&](ValueId v) { return parts_.fixed[v]; });
    const bool is_unknown = std::ranges::any_of(inputs(n), [&](ValueId v) { return unknown_[v]; });
    for (auto v : parts_.operands[n].outputs) {
      if (is_fixed && parts_.rewritten[v] == 0) parts_.fixed[v] = 1;
    }
    auto status = lower(n, is_unknown || reads_data ? Known::nothing : is_fixed ? Known::shapes : Known::bounds);
    bool is_guess = false;
    if (!status && is_unknown && status.error().code != ErrorCode::unsupported) {
      is_guess = true;
      status = lower_with_guesses(n, std::move(status).error());
    }
    TRY(std::move(status));
    if (is_unknown || reads_data) {
      forget(n, is_guess);
    } else if (!is_fixed) {
      take_bounds(n);
    }
    return {};
  }

  /// The largest shapes need not give the largest result: of a slice from ten before the end up to the twentieth, ten
  /// remain of twenty elements, and nine of twenty-one. Then what the program states is the largest.
  void take_bounds(std::uint32_t n) {
    for (auto v : parts_.operands[n].outputs) {
      const auto* t = parts_.graph.tensor(v);
      if (t == nullptr || live_.shapes[v] == t->shape) continue;
      unknown_[v] = true;
      live_.shapes[v] = t->shape;
    }
  }

  /// Takes the largest shapes for what a node makes: it depends on the caller's data, or was only guessed.
  void forget(std::uint32_t n, bool is_guess) {
    for (auto v : parts_.operands[n].outputs) {
      if (const auto* t = parts_.graph.tensor(v)) {
        unknown_[v] = is_guess || !(live_.shapes[v] == t->shape);
        live_.shapes[v] = t->shape;
      } else {
        unknown_[v] = true;
      }
    }
  }

  /// Lowers a node once for every combination of variants.
  Status lower(std::uint32_t n, Known known) {
    const Planned planned{parts_.graph, parts_.profile, parts_.storage, parts_.ops, parts_.fixed};
    Combinations combinations;
    std::uint32_t dispatches = 0;
    bool is_first = true;
    do {
      TRY(stop_.after(kNodesPerLowering));
      Probe probe(parts_, combinations, n, known);
      TRY(Lowering(planned, live_, n, probe).run());
      needs_.scratch_bytes[n] = std::max(needs_.scratch_bytes[n], probe.scratch_bytes);
      dispatches = std::max(dispatches, probe.dispatches);
      parts_.spare[n] = std::max(parts_.spare[n], probe.spare);
      if (std::exchange(is_first, false)) {
        std::ranges::move(probe.checks, std::back_inserter(needs_.checks));
        std::ranges::move(probe.row_axes, std::back_inserter(needs_.row_axes));
      }
    } while (combinations.next());
    if (parts_.storage.at_load[n] != 0) return {};
    needs_.dispatches += dispatches;
    return parts_.ledger.dispatches.pay(dispatches);
  }

  /// Plans dispatches for pieces. Too many in all are no reason to refuse a program: all pieces are larger then.
  Status plan_pieces() {
    const std::uint64_t wanted = std::accumulate(parts_.spare.begin(), parts_.spare.end(), std::uint64_t{0});
    const auto most = std::min(kMostSpare, parts_.ledger.dispatches.left());
    const auto times = wanted <= most ? 1 : most == 0 ? wanted + 1 : Size(wanted).div_up(most).unchecked();
    const Size work = Size(parts_.layout.batch_work) * times;
    parts_.layout.piece_work = work.valid() ? work.unchecked() : std::numeric_limits<std::uint64_t>::max();
    std::uint32_t planned = 0;
    for (std::uint32_t n = 0; n < parts_.spare.size(); ++n) {
      parts_.spare[n] = static_cast<std::uint32_t>(parts_.spare[n] / times);
      if (parts_.storage.at_load[n] == 0) planned += parts_.spare[n];
    }
    needs_.dispatches += planned;
    return parts_.ledger.dispatches.pay(planned);
  }

  /// SymInts from the caller's data, and shapes that depend on them, are unknown at load. The op may reject zero
  /// together with the largest shapes. Any accepted values will do, because resources do not depend on them.
  Status lower_with_guesses(std::uint32_t n, Error first) {
    std::vector<ValueId> ints;
    std::vector<std::pair<ValueId, Shape>> tensors;  // with their shapes before
    for (auto v : inputs(n)) {
      const bool is_tensor = parts_.graph.tensor(v) != nullptr;
      if (is_tensor && parts_.fixed[v] == 0) tensors.emplace_back(v, live_.shapes[v]);
      if (!is_tensor && unknown_[v]) ints.push_back(v);
    }
    const auto guesses = ints.empty() ? std::vector<std::int64_t>{0} : sizes_near(n);
    bool found = false;
    // First the largest shapes, then size 1 along each single dimension, then size 1 and size 0 along all.
    constexpr std::size_t kAxes = Shape::kMaxRank;
    for (std::size_t mode = 0; mode <= kAxes + 2 && !found; ++mode) {
      for (const auto& [v, before] : tensors)
        shrink(v, mode == 0 ? kAxes : mode - 1, mode == kAxes + 2 ? 0 : 1, mode > kAxes);
      for (const auto rest : guesses) {
        for (const auto head : guesses) {
          if (found || attempts_ == kMostAttempts) break;
          ++attempts_;
          for (auto v : ints) live_.ints[v] = rest;
          if (!ints.empty()) live_.ints[ints.front()] = head;
          found = lower(n, Known::nothing).has_value();
        }
        if (ints.size() < 2) break;
      }
    }
    for (const auto& [v, before] : tensors) live_.shapes[v] = before;
    for (auto v : ints) live_.ints[v] = 0;
    if (found) return {};
    first.code = ErrorCode::unsupported;
    return std::unexpected(std::move(first));
  }

  /// Guesses for unknown integers, which are mostly sizes of tensors.
  std::vector<std::int64_t> sizes_near(std::uint32_t n) const {
    constexpr std::size_t kMostGuesses = 16;
    std::vector<std::int64_t> sizes{0, 1};
    const auto add = [&](ValueId v) {
      const auto* t = parts_.graph.tensor(v);
      for (std::size_t i = 0; t != nullptr && i < t->shape.rank() && sizes.size() < kMostGuesses; ++i) {
        if (std::ranges::find(sizes, t->shape[i]) == sizes.end()) sizes.push_back(t->shape[i]);
      }
    };
    std::ranges::for_each(parts_.operands[n].outputs, add);
    std::ranges::for_each(parts_.operands[n].inputs, add);
    return sizes;
  }

  /// Gives a tensor at most `size` entries along dimension `axis`, or along all; its other dimensions keep their
  /// largest size.
  void shrink(ValueId v, std::size_t axis, std::int64_t size, bool all) {
    const auto& bound = parts_.graph.tensor(v)->shape;
    for (std::size_t i = 0; i < bound.rank(); ++i) {
      live_.shapes[v][i] = all || i == axis ? std::min(bound[i], size) : bound[i];
    }
  }

  /// A limit, so that a hostile program cannot make planning slow.
  static constexpr std::size_t kMostAttempts = 4096;
  /// To lower a node takes as long as passes look at so many.
  static constexpr std::uint64_t kNodesPerLowering = 16;

  PlanParts& parts_;
  LiveValues live_;
  std::vector<bool> unknown_;  ///< depends on the caller's data
  std::size_t attempts_ = 0;
  StopCheck stop_;
  Needs needs_;
};

}  // namespace

Result<Needs> explore(PlanParts& parts, IsStopWanted is_stop_wanted, Refusals* refusals) {
  return Explorer(parts, is_stop_wanted).run(refusals);
}

}  // namespace nibble
