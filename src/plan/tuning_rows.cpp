#include "plan/tuning_rows.hpp"

#include <algorithm>
#include <utility>

namespace nibble {
namespace {

constexpr double kGain = 0.97;
constexpr double kSteady = 1.1;

/// In both rounds, and if rounds differ much, in either against any: then one that is longer may be somebody else's
/// doing.
bool wins(const VariantTime& time, const VariantTime& first) {
  const auto is_steady = [](const VariantTime& t) {
    return std::ranges::max(t.rounds) <= kSteady * std::ranges::min(t.rounds);
  };
  if (is_steady(time) && is_steady(first)) {
    return time.rounds[0] < kGain * first.rounds[0] && time.rounds[1] < kGain * first.rounds[1];
  }
  return std::ranges::max(time.rounds) < kGain * std::ranges::min(first.rounds);
}

double total(const VariantTime& time) { return time.rounds[0] + time.rounds[1]; }

/// For a point.
TuningRow row_of(const TuningPoint& point, std::size_t variant) {
  TuningRow row{.choice = std::string(point.choice->name),
                .variant = std::string(point.choice->variants[variant].name),
                .min_rows = point.rows,
                .max_rows = point.rows,
                .min_width = point.width,
                .max_width = point.width,
                .traits = point.traits};
  if (point.depth) row.min_depth = row.max_depth = *point.depth;
  return row;
}

void widen(TuningRow& row, const TuningRow& to) {
  row.min_rows = std::min(row.min_rows, to.min_rows);
  row.max_rows = std::max(row.max_rows, to.max_rows);
  row.min_width = std::min(row.min_width, to.min_width);
  row.max_width = std::max(row.max_width, to.max_width);
  row.min_depth = std::min(row.min_depth, to.min_depth);
  row.max_depth = std::max(row.max_depth, to.max_depth);
}

}  // namespace

std::size_t winner_of(std::span<const VariantTime> times) {
  const VariantTime* best = &times[0];
  for (const auto& time : times.subspan(1)) {
    if (wins(time, times[0]) && total(time) < total(*best)) best = &time;
  }
  return best->variant;
}

void TuningTimes::add(const TuningCase& one, std::string_view op, std::vector<VariantTime> times) {
  for (auto& time : times) {
    for (auto& round : time.rounds) round *= static_cast<double>(one.alike);
  }
  auto found = std::ranges::find(points_, one.point, &Point::point);
  if (found == points_.end()) {
    found = points_.insert(points_.end(), {one.point, std::move(times), {}});
  } else if (found->times[0].variant == times[0].variant) {
    // What one node cannot take, the others shall not.
    std::erase_if(found->times, [&](VariantTime& sum) {
      const auto more = std::ranges::find(times, sum.variant, &VariantTime::variant);
      if (more == times.end()) return true;
      for (std::size_t i = 0; i < sum.rounds.size(); ++i) sum.rounds[i] += more->rounds[i];
      return false;
    });
  }
  if (std::ranges::find(found->ops, op) == found->ops.end()) found->ops.emplace_back(op);

  link(one, static_cast<std::size_t>(found - points_.begin()));
}

void TuningTimes::link(const TuningCase& one, std::size_t place) {
  const auto last_at = [&](std::size_t position) {
    return std::ranges::find_if(last_, [&](const Last& l) {
      const auto& before = points_[l.point].point;
      return l.node == one.node && l.position == position && l.call < one.call && before.choice == one.point.choice &&
             before.traits == one.point.traits;
    });
  };
  const auto add = [&](std::vector<std::size_t> group) {
    if (std::ranges::find(group, kNone) == group.end()) neighbours_.push_back(std::move(group));
  };
  const auto smaller = last_at(one.position);
  const auto before = smaller != last_.end() ? smaller->point : kNone;
  if (before != place) add({before, place});
  if (one.position > 0) {
    // At the same sizes, and that of the sizes before.
    const auto earlier = last_at(one.position - 1);
    if (earlier != last_.end() && earlier->call + 1 == one.call) {
      add({earlier->point, place});
      add({earlier->before, earlier->point, before, place});
    }
  }
  const Last now{one.node, one.call, one.position, place, before};
  if (smaller != last_.end()) {
    *smaller = now;
    return;
  }
  std::erase_if(last_, [&](const Last& l) { return l.node != one.node; });
  last_.push_back(now);
}

std::vector<TunedRow> TuningTimes::rows() const {
  std::vector<TunedRow> rows;
  std::vector<std::size_t> winners;
  for (const auto& [point, times, ops] : points_) {
    const auto& variants = point.choice->variants;
    winners.push_back(winner_of(times));
    auto& row = rows.emplace_back(TunedRow{.row = row_of(point, winners.back()),
                                           .before = std::string(variants[times[0].variant].name),
                                           .ops = ops,
                                           .times = {}});
    for (const auto& time : times) row.times.emplace_back(variants[time.variant].name, total(time) / 2);
  }
  for (const auto& group : neighbours_) {
    const auto winner = winners[group[0]];
    const auto wins_here = [&](std::size_t p) { return winners[p] == winner; };
    const auto is_selected = [&](std::size_t p) { return points_[p].times[0].variant == winner; };
    if (!std::ranges::all_of(group, wins_here) || std::ranges::all_of(group, is_selected)) continue;
    TunedRow between{.row = row_of(points_[group[0]].point, winner), .before = {}, .ops = {}, .times = {}};
    for (const auto p : group) widen(between.row, row_of(points_[p].point, winner));
    if (std::ranges::find(rows, between.row, &TunedRow::row) == rows.end()) rows.push_back(std::move(between));
  }
  return rows;
}

}  // namespace nibble
