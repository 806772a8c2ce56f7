#include "gpu/tuner.hpp"

#include <algorithm>

#include "gpu/node_bench.hpp"

namespace nibble::gpu {
namespace {

using Clock = StopAfter::Clock;
using Microseconds = std::chrono::duration<double, std::micro>;

/// A sample is about this long, so that what a submission costs counts little.
constexpr double kSampleUs = 1000;
constexpr std::uint32_t kMostTimes = 256;
constexpr std::size_t kSamples = 5;  ///< of a round
/// A variant that takes so many times as long as the fastest is not measured further, or not to its end. One sample
/// alone says little: another process may have had the processor.
constexpr std::size_t kFewSamples = 2;
constexpr double kHopeless = 1.5;
constexpr double kGivenUp = 4;
constexpr double kLeastLimitUs = 20000;

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::ranges::nth_element(samples, middle);
  return *middle;
}

/// A variant of a case while it is measured.
struct Candidate {
  VariantTime time;
  std::vector<double> samples;  ///< of the round
  bool is_hopeless = false;
};

class Tuner {
 public:
  Tuner(const std::shared_ptr<Device>& device, const std::shared_ptr<const Plan>& plan, const Options& options,
        Registry registry, ConstantSource& source)
      : device_(device), plan_(plan), options_(options), registry_(registry), source_(source) {}

  Result<Tuned> run(std::uint64_t milliseconds, const Progress& progress) {
    const auto begin = Clock::now();
    const auto found = find_cases(plan_, is_asked_to_stop);
    tuned_.cases = found.cases.size();
    constexpr std::uint64_t kMostMs = 1000ULL * 60 * 60 * 24;
    const StopAfter limit(begin + std::chrono::milliseconds(std::min(milliseconds, kMostMs)));
    std::unique_ptr<NodeBench> bench;
    for (std::size_t i = 0; i < found.cases.size() && !is_stop_wanted(); ++i) {
      const auto& one = found.cases[i];
      if (i == 0 || found.cases[i - 1].node != one.node) {
        bench.reset();
        TRY_ASSIGN(bench, make_bench(one.node));
      }
      if (bench) TRY(measure(*bench, one, found.calls[one.call]));
      if (progress) progress(i + 1, tuned_.cases);
    }
    TRY(device_->check());
    tuned_.is_stopped = is_asked_to_stop();
    tuned_.rows = times_.rows();
    tuned_.milliseconds = Microseconds(Clock::now() - begin).count() / 1000;
    return std::move(tuned_);
  }

 private:
  std::string_view name(std::uint32_t node) const { return plan_->graph().nodes[node].name(); }

  /// An error that ends the tuning: of the device. Others are remembered, but for that there is no time left.
  Status take(const Error& error, std::uint32_t node, std::string_view what) {
    if (device_->has_failed() || error.code == ErrorCode::out_of_memory) return std::unexpected(error);
    if (error.code == ErrorCode::cancelled) return {};
    refuse(fmt::format("{}: {}: {}", name(node), what, error.message));
    return {};
  }

  void refuse(std::string sentence) {
    if (std::ranges::find(tuned_.refused, sentence) == tuned_.refused.end())
      tuned_.refused.push_back(std::move(sentence));
  }

  /// None if the node cannot be measured.
  Result<std::unique_ptr<NodeBench>> make_bench(std::uint32_t node) {
    auto bench = NodeBench::make(device_, *plan_, node, options_, registry_, source_);
    if (bench) return bench;
    TRY(take(bench.error(), node, "cannot be measured by itself"));
    return nullptr;
  }

  Status measure(NodeBench& bench, const TuningCase& one, const TuningCases::Call& call) {
    bench.fill(call);
    auto times = time_variants(bench, one);
    if (!times) return take(times.error(), one.node, "cannot be measured by itself");
    ++tuned_.measured;
    times_.add(one, name(one.node), std::move(*times));
    return {};
  }

  /// Of all variants that agree with the first.
  Result<std::vector<VariantTime>> time_variants(NodeBench& bench, const TuningCase& one) {
    const Choice* choice = one.point.choice;
    TRY(bench.select(choice, one.variants[0]));
    TRY_ASSIGN(const auto wanted, bench.run());
    TRY(bench.select(choice, one.variants[0]));
    TRY_ASSIGN(const double first, bench.measure(1));
    std::vector<Candidate> candidates{{.time = {.variant = one.variants[0]}, .samples = {}}};
    for (std::size_t i = 1; i < one.variants.size(); ++i) {
      TRY_ASSIGN(const bool is_good, try_variant(bench, one, one.variants[i], wanted, first));
      if (is_good) candidates.push_back({.time = {.variant = one.variants[i]}, .samples = {}});
    }
    const auto times =
        static_cast<std::uint32_t>(std::clamp(kSampleUs / std::max(first, 1.0), 1.0, double{kMostTimes}));
    for (std::size_t round = 0; round < candidates[0].time.rounds.size(); ++round) {
      TRY(time_round(bench, choice, times, round, candidates));
      // What loses once need not be compared again.
      for (auto& c : candidates) {
        if (round == 0) c.time.rounds[1] = c.time.rounds[0];
      }
      std::vector<VariantTime> so_far;
      so_far.reserve(candidates.size());
      for (const auto& c : candidates) so_far.push_back(c.time);
      if (round == 0 && winner_of(so_far) != candidates[0].time.variant) continue;
      return so_far;
    }
    return std::vector<VariantTime>{};
  }

  /// Whether a variant is right, and not far slower than `first` microseconds.
  Result<bool> try_variant(NodeBench& bench, const TuningCase& one, std::size_t variant, const NodeResults& wanted,
                           double first) {
    const auto limit = Microseconds(std::max(kGivenUp * first, kLeastLimitUs));
    const StopAfter give_up(Clock::now() + std::chrono::duration_cast<Clock::duration>(limit));
    auto status = bench.select(one.point.choice, variant);
    auto results = status ? bench.run() : std::unexpected(std::move(status).error());
    const auto what = fmt::format("{}={}", one.point.choice->name, one.point.choice->variants[variant].name);
    if (!results) {
      TRY(take(results.error(), one.node, what));
      return false;
    }
    if (agree(wanted, *results)) return true;
    refuse(fmt::format("{}: {}: its results differ from those of {}", name(one.node), what,
                       one.point.choice->variants[one.variants[0]].name));
    return false;
  }

  /// Samples of all candidates in turn, back and forth.
  static Status time_round(NodeBench& bench, const Choice* choice, std::uint32_t times, std::size_t round,
                           std::vector<Candidate>& candidates) {
    for (auto& c : candidates) c.samples.clear();
    for (std::size_t sample = 0; sample < kSamples; ++sample) {
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        auto& c = candidates[sample % 2 == 0 ? i : candidates.size() - 1 - i];
        if (c.is_hopeless) continue;
        TRY(bench.select(choice, c.time.variant));
        TRY_ASSIGN(const double us, bench.measure(times));
        c.samples.push_back(us);
      }
      if (sample + 1 >= kFewSamples) drop_hopeless(candidates);
    }
    for (auto& c : candidates) {
      if (!c.samples.empty()) c.time.rounds[round] = median(c.samples);
    }
    return {};
  }

  static void drop_hopeless(std::vector<Candidate>& candidates) {
    double best = std::numeric_limits<double>::max();
    for (const auto& c : candidates) {
      if (!c.samples.empty()) best = std::min(best, std::ranges::min(c.samples));
    }
    // The first is what others are compared with.
    for (std::size_t i = 1; i < candidates.size(); ++i) {
      auto& c = candidates[i];
      c.is_hopeless = c.is_hopeless || (!c.samples.empty() && std::ranges::min(c.samples) > kHopeless * best);
    }
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<const Plan> plan_;
  const Options& options_;
  Registry registry_;
  ConstantSource& source_;
  TuningTimes times_;
  Tuned tuned_;
};

}  // namespace

Result<Tuned> tune(const std::shared_ptr<Device>& device, const std::shared_ptr<const Plan>& plan,
                   const Options& options, Registry registry, ConstantSource& source, std::uint64_t milliseconds,
                   const Progress& progress) {
  return Tuner(device, plan, options, registry, source).run(milliseconds, progress);
}

}  // namespace nibble::gpu
