#include "plan/tuning_rows.hpp"

#include <algorithm>
#include <utility>

namespace nibble {
namespace {

constexpr double kGain = 0.97;

double total(const VariantTime& time) { return time.rounds[0] + time.rounds[1]; }

TuningRow row_of(const TuningPoint& from, const TuningPoint& to, std::size_t variant) {
  TuningRow row{.choice = std::string(from.choice->name),
                .variant = std::string(from.choice->variants[variant].name),
                .traits = from.traits};
  std::tie(row.min_rows, row.max_rows) = std::minmax(from.rows, to.rows);
  std::tie(row.min_width, row.max_width) = std::minmax(from.width, to.width);
  return row;
}

}  // namespace

std::size_t winner_of(std::span<const VariantTime> times) {
  const VariantTime* best = &times[0];
  for (const auto& time : times.subspan(1)) {
    const bool wins = time.rounds[0] < kGain * times[0].rounds[0] && time.rounds[1] < kGain * times[0].rounds[1];
    if (wins && total(time) < total(*best)) best = &time;
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

  const auto place = static_cast<std::size_t>(found - points_.begin());
  const auto last = std::ranges::find_if(last_, [&](const Last& l) {
    const auto& before = points_[l.point].point;
    return l.node == one.node && l.call < one.call && before.choice == one.point.choice &&
           before.traits == one.point.traits;
  });
  if (last == last_.end()) {
    std::erase_if(last_, [&](const Last& l) { return l.node != one.node; });
    last_.push_back({one.node, one.call, place});
  } else {
    if (last->point != place) neighbours_.emplace_back(last->point, place);
    *last = {one.node, one.call, place};
  }
}

std::vector<TunedRow> TuningTimes::rows() const {
  std::vector<TunedRow> rows;
  std::vector<std::size_t> winners;
  for (const auto& [point, times, ops] : points_) {
    const auto& variants = point.choice->variants;
    winners.push_back(winner_of(times));
    auto& row = rows.emplace_back(TunedRow{.row = row_of(point, point, winners.back()),
                                           .before = std::string(variants[times[0].variant].name),
                                           .ops = ops,
                                           .times = {}});
    for (const auto& time : times) row.times.emplace_back(variants[time.variant].name, total(time) / 2);
  }
  for (const auto& [a, b] : neighbours_) {
    const auto selected = [&](std::size_t p) { return points_[p].times[0].variant; };
    if (winners[a] != winners[b] || (selected(a) == winners[a] && selected(b) == winners[b])) continue;
    TunedRow between{
        .row = row_of(points_[a].point, points_[b].point, winners[a]), .before = {}, .ops = {}, .times = {}};
    if (std::ranges::find(rows, between.row, &TunedRow::row) == rows.end()) rows.push_back(std::move(between));
  }
  return rows;
}

}  // namespace nibble
