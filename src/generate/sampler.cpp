#include "generate/sampler.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "generate/arithmetic.hpp"
#include "generate/sentence.hpp"

namespace nibble::generate {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_nan(double x) { return x != x; }

/// Of what the model gives; a bias or penalty of a float's range cannot make NaN of a sum.
bool is_moderate(double x) { return x >= -3.4e38 && x <= 3.4e38; }

Status check_from(std::string_view name, double value, double least, double most, std::string_view wanted) {
  if (value >= least && value <= most) return {};
  return refuse({name, " is ", value, ", but it must be ", wanted});
}

Status check_count(std::string_view name, std::int64_t value) {
  if (value >= 0) return {};
  return refuse({name, " is ", value, ", but it must be a whole number from 0 on"});
}

Error nothing_left() {
  return refuse(ErrorCode::out_of_range,
                {"no token can be chosen: each has the logit -infinity or is forbidden by the mask"})
      .error();
}

/// e^(x - largest), where both may be infinite.
double ratio(double x, double largest) { return x == largest ? 1 : exponential(x - largest); }

}  // namespace

Status check(const Sampling& sampling, std::int64_t vocabulary) {
  if (vocabulary < 1 || vocabulary > kMostTokens) {
    return refuse({"the vocabulary has ", vocabulary, " tokens, but it must have from 1 to ", kMostTokens});
  }
  constexpr double kMost = std::numeric_limits<double>::max();
  Status status = check_from("temperature", sampling.temperature, 0, kMost, "a number from 0 on");
  if (status) status = check_count("top_k", sampling.top_k);
  if (status) status = check_from("top_p", sampling.top_p, 0, 1, "a number from 0 to 1");
  if (status) status = check_from("min_p", sampling.min_p, 0, 1, "a number from 0 to 1");
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  if (status) status = check_from("repetition_penalty", sampling.repetition_penalty, kLeast, kMost, "a number above 0");
  if (status) status = check_count("repetition_window", sampling.repetition_window);
  if (status) status = check_from("presence_penalty", sampling.presence_penalty, -3.4e38, 3.4e38, "a finite float32");
  if (status) status = check_from("frequency_penalty", sampling.frequency_penalty, -3.4e38, 3.4e38, "a finite float32");
  if (status) status = check_count("top_logprobs", sampling.top_logprobs);
  if (!status) return status;
  for (const auto& [id, bias] : sampling.biases) {
    if (id < 0 || id >= vocabulary) {
      return refuse({"a bias is for token ", id, ", but the vocabulary has ", vocabulary, " tokens"});
    }
    if (!is_moderate(bias)) {
      return refuse({"the bias of token ", id, " is ", bias, ", but it must be a finite float32"});
    }
  }
  return {};
}

Result<Sampler> Sampler::make(Sampling sampling, std::int64_t vocabulary) {
  if (auto status = check(sampling, vocabulary); !status) return std::unexpected(std::move(status).error());
  return Sampler(std::move(sampling), vocabulary);
}

Sampler::Sampler(Sampling sampling, std::int64_t vocabulary)
    : sampling_(std::move(sampling)), vocabulary_(vocabulary), places_(static_cast<std::size_t>(vocabulary)) {}

bool Sampler::is_allowed(const Moment& moment, std::int32_t id) const {
  if (moment.allowed.empty()) return true;
  const auto word = static_cast<std::uint32_t>(id) / 32;
  return word < moment.allowed.size() && (moment.allowed[word] >> (static_cast<std::uint32_t>(id) % 32) & 1) != 0;
}

/// Grows with the logit, or stays: so a bound of a logit gives a bound of what becomes of it.
double Sampler::changed(double logit, const Change& change) const {
  logit += change.bias;
  if (change.count == 0) return logit;
  const double p = sampling_.repetition_penalty;
  logit = logit > 0 ? logit / p : logit * p;
  return logit - (sampling_.presence_penalty + sampling_.frequency_penalty * static_cast<double>(change.count));
}

Sampler::Change& Sampler::change_of(std::int32_t id) {
  auto& place = places_[static_cast<std::size_t>(id)];
  if (place == 0) {
    changes_.push_back({.id = id});
    place = static_cast<std::uint32_t>(changes_.size());
  }
  return changes_[place - 1];
}

void Sampler::find_changes(const Moment& moment) {
  for (const auto& change : changes_) places_[static_cast<std::size_t>(change.id)] = 0;
  changes_.clear();
  for (const auto& [id, bias] : sampling_.biases) change_of(id).bias += bias;
  const auto& s = sampling_;
  if (s.repetition_penalty == 1 && s.presence_penalty == 0 && s.frequency_penalty == 0) return;
  const auto window = static_cast<std::uint64_t>(s.repetition_window);
  const auto seen = window == 0 ? moment.tokens.size() : std::min<std::uint64_t>(window, moment.tokens.size());
  for (const auto id : moment.tokens.last(seen)) {
    if (id >= 0 && id < vocabulary_) ++change_of(id).count;
  }
}

void Sampler::add_entry(const Moment& moment, std::int32_t id, float logit) {
  if (!is_allowed(moment, id)) return;
  const auto place = places_[static_cast<std::size_t>(id)];
  const double now = place == 0 ? double{logit} : changed(logit, changes_[place - 1]);
  if (now > -kInfinity) entries_.push_back({now, id});
}

/// How many of the sorted entries surely rank before every token that is no candidate.
std::size_t Sampler::sure_entries(const Moment& moment, const Candidate& last) const {
  // The first place that a token without a change can have, and then those of changed ones.
  Entry first{last.logit, last.id + 1};
  for (const auto& change : changes_) {
    const Entry place{changed(last.logit, change), change.id};
    if (!change.is_candidate && is_allowed(moment, change.id) && ranks_before(place, first)) first = place;
  }
  return static_cast<std::size_t>(
      std::ranges::partition_point(entries_, [&](const Entry& entry) { return ranks_before(entry, first); }) -
      entries_.begin());
}

/// The sum of the weights of all that top_k leaves, where not all tokens are candidates.
Sampler::Interval Sampler::total_of(const Moment& moment, std::span<const Candidate> top, float total,
                                    std::size_t sure) const {
  const double largest = entries_.front().logit;
  std::uint64_t known = 0;
  std::uint64_t known_sure = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const auto w = weight(entries_[i].logit, largest);
    known += w;
    if (i < sure) known_sure += w;
  }
  // Far above what is left of them, the model's own numbers say nothing.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  if (top.front().logit > largest + 500) return {known_sure, kMost};
  // The tokens that are no candidates have the rest of the model's own total, as far as they are not changed.
  const double whole = double{total} * ratio(top.front().logit, largest);
  double candidates = 0;
  for (const auto& candidate : top) candidates += ratio(candidate.logit, largest);
  double low = whole * (1 - kTolerance) - candidates;
  double high = std::max(0.0, whole * (1 + kTolerance) - candidates);
  for (const auto& change : changes_) {
    if (change.is_candidate) continue;
    low -= ratio(top.back().logit, largest);
    if (is_allowed(moment, change.id)) high += ratio(changed(top.back().logit, change), largest);
  }
  // Each weight is rounded down.
  const auto one = static_cast<double>(kOne);
  const auto rounding = static_cast<double>(vocabulary_);
  low = low * one - rounding;
  high = high * one + rounding;
  Interval sum{known, known};
  if (moment.allowed.empty() && low > 0)
    sum.low += static_cast<std::uint64_t>(std::min(low, static_cast<double>(kMost)));
  sum.high += static_cast<std::uint64_t>(std::min(high, static_cast<double>(kMost)));
  if (sampling_.top_k != 0) sum.low = known_sure;
  return sum;
}

/// How many of the first tokens top_k, top_p and min_p keep, or kUnknown if that needs more of them. `total` is the sum
/// of the weights that top_k leaves; it is not read where `sorted` has all of those.
std::size_t Sampler::cut(std::span<const Entry> sorted, bool is_all, Interval total) const {
  const auto most = sampling_.top_k == 0 ? kUnknown : static_cast<std::size_t>(sampling_.top_k);
  const bool has_rest = !is_all && sorted.size() < most;
  sorted = sorted.first(std::min(most, sorted.size()));
  const double largest = sorted.front().logit;
  if (!has_rest && sampling_.top_p < 1) {
    std::uint64_t sum = 0;
    for (const auto& entry : sorted) sum += weight(entry.logit, largest);
    total = {sum, sum};
  }
  const auto needed = [&](std::uint64_t sum) {
    const double part = sampling_.top_p * static_cast<double>(sum);
    return sampling_.top_p < 1 ? static_cast<std::uint64_t>(part) : std::numeric_limits<std::uint64_t>::max();
  };
  const auto low = needed(total.low);
  const auto high = needed(total.high);
  const auto least = static_cast<std::uint64_t>(sampling_.min_p * static_cast<double>(kOne));
  std::size_t fewest = kUnknown;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const auto w = weight(sorted[i].logit, largest);
    // What both bounds of the total and min_p agree about is known.
    if (w < least) return fewest == kUnknown || fewest == i ? i : kUnknown;
    sum += w;
    if (fewest == kUnknown && sum >= low) fewest = i + 1;
    if (sum >= high) return fewest == i + 1 ? i + 1 : kUnknown;
  }
  return has_rest ? kUnknown : sorted.size();
}

/// What is kept of entries_, which hold all tokens, in any order.
std::span<Sampler::Entry> Sampler::truncate_all() {
  const auto& s = sampling_;
  if (s.top_k == 0 && s.top_p == 1 && s.min_p == 0) return entries_;
  Interval total;
  if (s.top_k == 0 && s.top_p < 1) {
    const double largest = std::ranges::min(entries_, ranks_before).logit;
    for (const auto& entry : entries_) total.low += weight(entry.logit, largest);
    total.high = total.low;
  }
  // A heap gives only as many in order as are needed.
  const auto lower = [](const Entry& a, const Entry& b) { return ranks_before(b, a); };
  std::ranges::make_heap(entries_, lower);
  const auto all = entries_.size();
  std::size_t wanted = s.top_k == 0 ? 64 : static_cast<std::size_t>(s.top_k);
  sorted_.clear();
  for (;; wanted *= 4) {
    wanted = std::min(wanted, all);
    while (sorted_.size() < wanted) {
      std::ranges::pop_heap(entries_, lower);
      sorted_.push_back(entries_.back());
      entries_.pop_back();
    }
    const auto kept = cut(sorted_, wanted == all, total);
    if (kept != kUnknown) return std::span(sorted_).first(kept);
  }
}

std::int32_t Sampler::draw(std::span<Entry> kept, double largest, std::uint64_t step) {
  const auto by_id = [](const Entry& a, const Entry& b) { return a.id < b.id; };
  if (!std::ranges::is_sorted(kept, by_id)) {
    std::ranges::make_heap(kept, by_id);
    std::ranges::sort_heap(kept, by_id);
  }
  weights_.clear();
  std::uint64_t sum = 0;
  for (const auto& entry : kept) {
    const bool is_largest = entry.logit == largest;
    weights_.push_back(is_largest ? kOne : weight((entry.logit - largest) / sampling_.temperature, 0));
    sum += weights_.back();
  }
  auto rest = draw_below(sum, sampling_.seed, step);
  std::size_t i = 0;
  while (rest >= weights_[i]) rest -= weights_[i++];
  return kept[i].id;
}

Result<Choice> Sampler::from_candidates(std::span<const Candidate> top, float total, const Moment& moment) {
  const auto count = static_cast<std::int64_t>(top.size());
  const Choice undecided{.needs_all_logits = true};
  if (count == 0 || !(total > 0.5F) || total > std::numeric_limits<float>::max()) return undecided;
  if (count > vocabulary_) {
    return refuse({"there are ", count, " candidates, but the vocabulary has ", vocabulary_, " tokens"});
  }
  find_changes(moment);
  entries_.clear();
  for (std::size_t i = 0; i < top.size(); ++i) {
    const auto [id, logit] = top[i];
    if (is_nan(logit)) return undecided;
    if (id < 0 || id >= vocabulary_) {
      return refuse({"candidate ", i, " is token ", id, ", but the vocabulary has ", vocabulary_, " tokens"});
    }
    if (i > 0 && !ranks_before({top[i - 1].logit, top[i - 1].id}, {logit, id})) {
      return refuse({"candidate ", i, " is out of order: logits must fall, and ids rise where logits are equal"});
    }
    add_entry(moment, id, logit);
    if (const auto place = places_[static_cast<std::size_t>(id)]; place != 0) changes_[place - 1].is_candidate = true;
  }
  // Whatever comes after -infinity cannot be chosen either.
  const bool is_all = count == vocabulary_ || top.back().logit == -std::numeric_limits<float>::infinity();
  if (entries_.empty()) {
    if (is_all) return std::unexpected(nothing_left());
    return undecided;
  }
  std::ranges::make_heap(entries_, ranks_before);
  std::ranges::sort_heap(entries_, ranks_before);
  const auto sure = is_all ? entries_.size() : sure_entries(moment, top.back());
  if (sure == 0) return undecided;
  if (sampling_.logprobs && count < std::min(sampling_.top_logprobs, vocabulary_)) return undecided;
  Choice choice{.id = entries_.front().id};
  if (sampling_.temperature > 0) {
    const bool needs_total = sampling_.top_p < 1 && !is_all;
    const auto kept =
        cut(std::span(entries_).first(sure), is_all, needs_total ? total_of(moment, top, total, sure) : Interval{});
    if (kept == kUnknown) return undecided;
    choice.id = draw(std::span(entries_).first(kept), entries_.front().logit, moment.step);
  }
  if (sampling_.logprobs) {
    const double log_total = logarithm(total);
    const double largest = top.front().logit;
    const auto listed = std::min<std::size_t>(top.size(), static_cast<std::size_t>(sampling_.top_logprobs));
    top_.clear();
    for (const auto& [id, logit] : top) {
      const double logprob = logit - largest - log_total;
      if (id == choice.id) choice.logprob = logprob;
      if (top_.size() < listed) top_.push_back({id, logprob});
    }
    choice.top = top_;
  }
  return choice;
}

Result<Choice> Sampler::from_logits(std::span<const float> logits, const Moment& moment) {
  if (static_cast<std::int64_t>(logits.size()) != vocabulary_) {
    return refuse({"there are ", logits.size(), " logits, but the vocabulary has ", vocabulary_, " tokens"});
  }
  find_changes(moment);
  entries_.clear();
  float largest = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (is_nan(logits[i])) return refuse(ErrorCode::out_of_range, {"the logit of token ", i, " is NaN"});
    largest = std::max(largest, logits[i]);
    add_entry(moment, static_cast<std::int32_t>(i), logits[i]);
  }
  if (entries_.empty()) return std::unexpected(nothing_left());
  const auto best = std::ranges::min(entries_, ranks_before);
  Choice choice{.id = best.id};
  if (sampling_.temperature > 0) choice.id = draw(truncate_all(), best.logit, moment.step);
  if (!sampling_.logprobs) return choice;
  double total = 0;
  for (const auto logit : logits) total += ratio(logit, largest);
  const double log_total = logarithm(total);
  const auto logprob = [&](double logit) { return (logit == largest ? 0 : logit - largest) - log_total; };
  choice.logprob = logprob(logits[static_cast<std::size_t>(choice.id)]);
  top_.clear();
  if (sampling_.top_logprobs > 0) {
    entries_.clear();
    for (std::size_t i = 0; i < logits.size(); ++i) entries_.push_back({logits[i], static_cast<std::int32_t>(i)});
    const auto lower = [](const Entry& a, const Entry& b) { return ranks_before(b, a); };
    std::ranges::make_heap(entries_, lower);
    const auto listed = std::min(sampling_.top_logprobs, vocabulary_);
    for (std::int64_t i = 0; i < listed; ++i) {
      std::ranges::pop_heap(entries_, lower);
      top_.push_back({entries_.back().id, logprob(entries_.back().logit)});
      entries_.pop_back();
    }
  }
  choice.top = top_;
  return choice;
}

}  // namespace nibble::generate
