#include "plan/tuning_race.hpp"

#include <algorithm>
#include <limits>

namespace nibble {
namespace {

/// A sample is about this long, so that what a submission costs counts little.
constexpr double kSampleUs = 1000;
constexpr std::uint32_t kMostTimes = 256;
constexpr std::size_t kSamples = 5;  ///< of a round
/// Of longer ones fewer are enough.
constexpr double kLongUs = 5000;
constexpr std::size_t kFewSamples = 3;
constexpr std::size_t kMostRounds = 10;
/// A variant whose best sample takes so many times as long as that of the fastest leaves: within a round, where one
/// sample alone says little, and at its end.
constexpr std::size_t kSamplesToJudge = 2;
constexpr double kHopeless = 1.5;
constexpr double kFar = 1.2;
/// After one round: what loses by this need not be compared again.
constexpr double kLost = 1.05;
/// Rounds agree that differ by no more, and must do so of variants that are so near to the fastest.
constexpr double kAgree = 1.02;
constexpr double kNear = 1.1;

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::ranges::nth_element(samples, middle);
  return *middle;
}

}  // namespace

std::uint32_t Race::Candidate::times() const {
  return static_cast<std::uint32_t>(std::clamp(kSampleUs / std::max(least, 1.0), 1.0, double{kMostTimes}));
}

double Race::Candidate::best() const { return rounds.empty() ? std::numeric_limits<double>::max() : rounds[0]; }

bool Race::Candidate::is_settled() const { return rounds.size() > 1 && rounds[1] <= kAgree * rounds[0]; }

Race::Race(std::span<const Racer> racers, double budget_us) : budget_us_(budget_us), is_done_(racers.empty()) {
  candidates_.reserve(racers.size());
  for (const auto& one : racers) {
    candidates_.push_back({.variant = one.variant, .least = one.microseconds, .samples = {}, .rounds = {}});
  }
}

/// Even samples go forth, odd ones back.
std::size_t Race::turn() const { return sample_ % 2 == 0 ? place_ : candidates_.size() - 1 - place_; }

std::size_t Race::samples() const {
  const bool is_long =
      std::ranges::any_of(candidates_, [](const Candidate& c) { return !c.is_out && c.least > kLongUs; });
  return is_long ? kFewSamples : kSamples;
}

std::optional<Race::Turn> Race::next() const {
  if (is_done_) return std::nullopt;
  const auto& one = candidates_[turn()];
  return Turn{one.variant, one.times()};
}

void Race::add(double microseconds) {
  if (is_done_) return;
  auto& one = candidates_[turn()];
  spent_us_ += microseconds * one.times();
  one.least = round_ == 0 && one.samples.empty() ? microseconds : std::min(one.least, microseconds);
  one.samples.push_back(microseconds);
  do {
    if (++place_ < candidates_.size()) continue;
    place_ = 0;
    if (++sample_ >= kSamplesToJudge) drop_slow(kHopeless);
    if (sample_ >= samples()) end_round();
  } while (!is_done_ && candidates_[turn()].is_out);
}

void Race::drop_slow(double far) {
  double best = std::numeric_limits<double>::max();
  for (const auto& c : candidates_) best = std::min(best, c.least);
  // The first is what others are compared with, in two rounds.
  for (auto& c : std::span(candidates_).subspan(round_ < 2 ? 1 : 0)) c.is_out = c.is_out || c.least > far * best;
}

void Race::end_round() {
  for (auto& c : candidates_) {
    if (c.samples.empty()) continue;
    const double time = median(c.samples);
    c.rounds.insert(std::ranges::upper_bound(c.rounds, time), time);
    c.samples.clear();
  }
  sample_ = 0;
  ++round_;
  drop_slow(kFar);
  is_done_ = is_decided();
}

bool Race::is_decided() const {
  const auto& first = candidates_[0];
  const auto others = std::span(candidates_).subspan(1);
  if (std::ranges::count(candidates_, false, &Candidate::is_out) == 1) return true;
  if (round_ == 1) {
    return std::ranges::all_of(others, [&](const Candidate& c) { return c.best() > kLost * first.best(); });
  }
  if (round_ >= kMostRounds || spent_us_ * static_cast<double>(round_ + 1) > budget_us_ * static_cast<double>(round_)) {
    return true;
  }
  double best = std::numeric_limits<double>::max();
  for (const auto& c : candidates_) best = std::min(best, c.best());
  return std::ranges::all_of(candidates_,
                             [&](const Candidate& c) { return c.is_out || c.best() > kNear * best || c.is_settled(); });
}

std::vector<VariantTime> Race::times() const {
  std::vector<VariantTime> all;
  for (const auto& c : candidates_) {
    std::vector<double> rounds = c.rounds;
    if (rounds.empty()) rounds.push_back(c.samples.empty() ? c.least : median(c.samples));
    all.push_back({c.variant, {rounds[0], rounds[rounds.size() > 1 ? 1 : 0]}});
  }
  return all;
}

}  // namespace nibble
