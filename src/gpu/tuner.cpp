#include "gpu/tuner.hpp"

#include <algorithm>

#include "gpu/node_bench.hpp"
#include "plan/tuning_data.hpp"
#include "plan/tuning_race.hpp"

namespace nibble::gpu {
namespace {

using Clock = StopAfter::Clock;
using Microseconds = std::chrono::duration<double, std::micro>;

/// A variant that takes so many times as long as the first is not measured further, or not to its end.
constexpr double kGivenUp = 4;
constexpr double kLeastLimitUs = 20000;

bool agree(const Choice& choice, const DeviceProfile& profile, const NodeResults& a, const NodeResults& b) {
  return std::ranges::equal(a.outputs, b.outputs, [&](const NodeResults::Output& x, const NodeResults::Output& y) {
    return x.dtype == y.dtype && nibble::agree(x.dtype, x.bytes, y.bytes, tolerance_of(choice, x.stored, profile));
  });
}

class Tuner {
 public:
  Tuner(const std::shared_ptr<Device>& device, const std::shared_ptr<const Plan>& plan, const Options& options,
        Registry registry, ConstantSource& source)
      : device_(device), plan_(plan), options_(options), registry_(registry), source_(source) {}

  Result<Tuned> run(std::uint64_t milliseconds, const Progress& progress) {
    const auto begin = Clock::now();
    constexpr std::uint64_t kMostMs = 1000ULL * 60 * 60 * 24;
    const auto end = begin + std::chrono::milliseconds(std::min(milliseconds, kMostMs));
    const StopAfter limit(end);
    const auto found = find_cases(plan_, is_stop_wanted);
    tuned_.cases = found.cases.size();
    std::unique_ptr<NodeBench> bench;
    std::size_t i = 0;
    for (; i < found.cases.size() && !is_cut_short_ && !is_stop_wanted(); ++i) {
      const auto& one = found.cases[i];
      if (i == 0 || found.cases[i - 1].node != one.node) {
        bench.reset();
        TRY_ASSIGN(bench, make_bench(one.node));
      }
      // Where variants are near to each other, a case may take twice its share of the time that is left.
      const double budget_us = 2 * Microseconds(end - Clock::now()).count() / static_cast<double>(tuned_.cases - i);
      if (bench) TRY(measure(*bench, one, found.calls[one.call], budget_us));
      if (progress && !is_cut_short_) {
        const WithoutEnd of_the_user;
        progress(i + 1, tuned_.cases);
      }
    }
    TRY(check_process());
    TRY(device_->check());
    if (!found.is_complete || is_cut_short_ || i < found.cases.size()) {
      tuned_.ended = is_asked_to_stop() ? Tuned::Ended::stopped : Tuned::Ended::out_of_time;
    }
    tuned_.rows = times_.rows();
    tuned_.milliseconds = Microseconds(Clock::now() - begin).count() / 1000;
    return std::move(tuned_);
  }

 private:
  std::string_view name(std::uint32_t node) const { return plan_->graph().nodes[node].name(); }

  /// An error that ends the tuning: of the device. Others are remembered, but for that there is no time left; also that
  /// the GPU has no memory for what a node needs by itself, for the program may run without it.
  Status take(const Error& error, std::uint32_t node, std::string_view what) {
    TRY(check_process());
    if (device_->has_failed()) return std::unexpected(error);
    if (error.code == ErrorCode::cancelled) return {};
    refuse(fmt::format("{}: {}: {}", name(node), what, error.message));
    return {};
  }

  /// The same, of a whole node.
  Status give_up(const Error& error, std::uint32_t node) {
    is_cut_short_ = error.code == ErrorCode::cancelled;
    return take(error, node, "cannot be measured by itself");
  }

  void refuse(std::string sentence) {
    if (std::ranges::find(tuned_.refused, sentence) == tuned_.refused.end())
      tuned_.refused.push_back(std::move(sentence));
  }

  /// None if the node cannot be measured.
  Result<std::unique_ptr<NodeBench>> make_bench(std::uint32_t node) {
    auto bench = NodeBench::make(device_, *plan_, node, options_, registry_, source_);
    if (bench) return bench;
    TRY(give_up(bench.error(), node));
    return nullptr;
  }

  Status measure(NodeBench& bench, const TuningCase& one, const TuningCases::Call& call, double budget_us) {
    bench.fill(call);
    auto times = time_variants(bench, one, budget_us);
    if (!times) return give_up(times.error(), one.node);
    ++tuned_.measured;
    times_.add(one, name(one.node), std::move(*times));
    return {};
  }

  /// Kernels of one submission ask nobody whether they shall stop.
  static Status check_stop() {
    if (!is_stop_wanted()) return {};
    return fail(ErrorCode::cancelled, "measuring was cancelled");
  }

  /// Of all variants that agree with the first.
  Result<std::vector<VariantTime>> time_variants(NodeBench& bench, const TuningCase& one, double budget_us) {
    const Choice* choice = one.point.choice;
    TRY(bench.select(choice, one.variants[0]));
    TRY_ASSIGN(const auto wanted, bench.run());
    TRY(bench.select(choice, one.variants[0]));
    TRY_ASSIGN(const double first, bench.measure(1));
    std::vector<Race::Racer> racers{{one.variants[0], first}};
    for (std::size_t i = 1; i < one.variants.size(); ++i) {
      TRY_ASSIGN(const auto us, try_variant(bench, one, one.variants[i], wanted, first));
      TRY(check_stop());
      if (us) racers.push_back({one.variants[i], *us});
    }
    Race race(racers, budget_us);
    while (const auto turn = race.next()) {
      TRY(check_stop());
      TRY(bench.select(choice, turn->variant));
      TRY_ASSIGN(const double us, bench.measure(turn->times));
      race.add(us);
    }
    return race.times();
  }

  /// Microseconds of a variant, if it is right and not far slower than `first` microseconds.
  Result<std::optional<double>> try_variant(NodeBench& bench, const TuningCase& one, std::size_t variant,
                                            const NodeResults& wanted, double first) {
    const auto limit = Microseconds(std::max(kGivenUp * first, kLeastLimitUs));
    const StopAfter give_up(Clock::now() + std::chrono::duration_cast<Clock::duration>(limit));
    const auto what = fmt::format("{}={}", one.point.choice->name, one.point.choice->variants[variant].name);
    const auto try_it = [&]() -> Result<std::optional<double>> {
      TRY(bench.select(one.point.choice, variant));
      TRY_ASSIGN(const auto results, bench.run());
      if (!agree(*one.point.choice, plan_->profile(), wanted, results)) {
        refuse(fmt::format("{}: {}: its results differ from those of {}", name(one.node), what,
                           one.point.choice->variants[one.variants[0]].name));
        return std::nullopt;
      }
      TRY(bench.select(one.point.choice, variant));
      return bench.measure(1);
    };
    auto tried = try_it();
    if (tried) return tried;
    TRY(take(tried.error(), one.node, what));
    return std::nullopt;
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<const Plan> plan_;
  const Options& options_;
  Registry registry_;
  ConstantSource& source_;
  TuningTimes times_;
  Tuned tuned_;
  bool is_cut_short_ = false;  ///< in the midst of a case
};

}  // namespace

Result<Tuned> tune(const std::shared_ptr<Device>& device, const std::shared_ptr<const Plan>& plan,
                   const Options& options, Registry registry, ConstantSource& source, std::uint64_t milliseconds,
                   const Progress& progress) {
  return Tuner(device, plan, options, registry, source).run(milliseconds, progress);
}

}  // namespace nibble::gpu
