#include "plan/tuning_cases.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "plan/alone.hpp"

namespace nibble {
namespace {

/// Dimensions of inputs that have one size in every call, as far as can be told.
struct FreeSize {
  std::int64_t bound = 0;
  std::vector<std::pair<std::size_t, std::size_t>> places;  ///< input and dimension
};

/// Plans calls of other sizes, to see which of them the program takes.
class Trial {
 public:
  Trial(const std::shared_ptr<const Plan>& plan, IsStopWanted is_stop_wanted)
      : plan_(*plan), stepper_(plan), is_stop_wanted_(is_stop_wanted) {
    for (const auto& input : plan_.layout().inputs) largest_.push_back(input.bound);
  }

  /// The dimensions that may be smaller. The file says only of whole inputs that some are. Those of one bound are one
  /// size, unless the program does not take that.
  std::vector<FreeSize> free_sizes() {
    std::map<std::int64_t, FreeSize, std::greater<>> by_bound;
    for (std::size_t i = 0; i < largest_.size(); ++i) {
      const auto* tensor = plan_.graph().tensor(plan_.graph().inputs[i]);
      for (std::size_t d = 0; tensor != nullptr && !tensor->fixed && d < largest_[i].rank(); ++d) {
        if (largest_[i][d] < 2) continue;
        by_bound[largest_[i][d]].bound = largest_[i][d];
        by_bound[largest_[i][d]].places.emplace_back(i, d);
      }
    }
    std::vector<FreeSize> found;
    for (const auto& [bound, size] : by_bound) {
      if (takes({size}, {bound / 2})) {
        found.push_back(size);
        continue;
      }
      if (size.places.size() > kMostPlaces) continue;
      for (const auto& place : size.places) {
        const FreeSize single{bound, {place}};
        if (takes({single}, {bound / 2})) found.push_back(single);
      }
    }
    return found;
  }

  /// Whether the program takes a call of these sizes, at the middle of the positions that are usual, or at an earlier
  /// one; then the stepper has it.
  bool takes(const std::vector<FreeSize>& sizes, const std::vector<std::int64_t>& values) {
    return std::ranges::any_of(kPositions, [&](std::int64_t position) { return takes(sizes, values, position); });
  }

  /// An integer of the caller is mostly a position.
  bool takes(const std::vector<FreeSize>& sizes, const std::vector<std::int64_t>& values, std::int64_t position) {
    if (is_stopped()) return false;
    std::vector<Shape> shapes = largest_;
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      for (const auto& [input, dim] : sizes[s].places) shapes[input][dim] = values[s];
    }
    return takes(shapes, static_cast<std::int32_t>(position));
  }

  /// Positions behind that of the call which the stepper has: those that may be the last of a program's caches, and one
  /// that is far from their beginning. The largest first.
  std::vector<std::int64_t> later_positions(const std::vector<std::int64_t>& values) const {
    std::int64_t capacity = 0;
    for (const auto& state : plan_.layout().states) {
      if (state.row_axis >= 0) capacity = std::max(capacity, state.shape[static_cast<std::size_t>(state.row_axis)]);
    }
    std::set<std::int64_t> lengths(values.begin(), values.end());
    for (const auto& shape : largest_) lengths.insert(shape.dims().begin(), shape.dims().end());
    std::vector<std::int64_t> later{kFar};
    for (const auto length : lengths) later.push_back(capacity - length);
    capacity = std::min<std::int64_t>(capacity, std::numeric_limits<std::int32_t>::max());
    std::erase_if(later, [&](std::int64_t p) { return p <= integer_ || p >= capacity; });
    std::ranges::sort(later, std::greater());
    later.resize(std::min(later.size(), kMostPlaces));
    return later;
  }

  /// From then on, no call is planned.
  bool is_stopped() {
    is_stopped_ = is_stopped_ || (is_stop_wanted_ != nullptr && is_stop_wanted_());
    return is_stopped_;
  }

  static constexpr std::int64_t kFar = 1024;

  bool was_stopped() const { return is_stopped_; }
  const Stepper& stepper() const { return stepper_; }
  TuningCases::Call call() const { return {stepper_.live(), integer_}; }

 private:
  static constexpr std::size_t kMostPlaces = 8;
  static constexpr std::array<std::int64_t, 4> kPositions{128, 16, 1, 0};

  bool takes(const std::vector<Shape>& shapes, std::int32_t integer) {
    integer_ = integer;
    data_.resize(shapes.size());
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const auto& input = plan_.layout().inputs[i];
      if (input.is_symint ? !stepper_.set_int(i, integer) : !stepper_.set_shape(i, shapes[i])) return false;
      if (!input.host_read) continue;
      data_[i].assign(static_cast<std::size_t>(shapes[i].numel()), integer);
      stepper_.set_host_data(i, data_[i]);
    }
    return stepper_.update().has_value();
  }

  const Plan& plan_;
  Stepper stepper_;
  std::vector<Shape> largest_;
  std::vector<std::vector<std::int32_t>> data_;
  std::int32_t integer_ = 0;
  IsStopWanted is_stop_wanted_;
  bool is_stopped_ = false;
};

/// Whether a node has this point in one of these calls; cases are in the order of calls and nodes.
bool is_known(std::span<const TuningCase> cases, std::size_t first, std::size_t last, std::uint32_t node,
              const TuningPoint& point) {
  for (auto call = first; call <= last; ++call) {
    const auto own = std::ranges::equal_range(cases, std::pair(call, node), {},
                                              [](const TuningCase& one) { return std::pair(one.call, one.node); });
    if (std::ranges::find(own, point, &TuningCase::point) != own.end()) return true;
  }
  return false;
}

/// What a node chooses, each choice once: where it chooses for several dispatches, with the facts of those that do
/// most. A variant is forced for all of them, and what is measured is the whole node.
std::vector<Stepper::Chosen> choices_of(const Stepper& stepper, std::uint32_t node) {
  std::vector<Stepper::Chosen> all;
  std::vector<std::uint64_t> works;
  const auto made = stepper.choices(node);
  for (auto one = made.begin(); one != made.end(); ++one) {
    const auto next = std::ranges::find(one + 1, made.end(), one->choice, &Stepper::Chosen::choice);
    const auto work = stepper.work(node, one->first, next != made.end() ? next->first : Stepper::kAll);
    const auto known = std::ranges::find(all, one->choice, &Stepper::Chosen::choice);
    const auto place = known - all.begin();
    if (known == all.end()) {
      all.push_back(*one);
      works.push_back(work);
    } else if (work > works[place]) {
      *known = *one;
      works[place] = work;
    }
  }
  return all;
}

/// Nodes that do the same, by their likeness.
struct Alike {
  std::size_t call = 0;            ///< the last one that has some
  std::size_t begin = 0, end = 0;  ///< their cases there
  std::vector<TuningPoint> points = {};
};
using AllAlike = std::unordered_map<std::string, Alike>;

/// Of all nodes in the call that a stepper has. `first` is the first call of these sizes, from which it differs in its
/// position: nodes that choose by the same facts are in it already.
void add_cases(const Stepper& stepper, std::size_t first, std::size_t call, AllAlike& known,
               std::vector<TuningCase>& to) {
  const Plan& plan = stepper.plan();
  for (std::uint32_t n = 0; n < plan.graph().nodes.size(); ++n) {
    const auto work = stepper.work(n);
    if (plan.storage().at_load[n] != 0 || work == 0 || stepper.choices(n).empty()) continue;
    const auto [found, is_new] = known.try_emplace(likeness(plan, n, stepper.live()));
    auto& alike = found->second;
    if (!is_new && alike.call == call) {
      for (auto i = alike.begin; i < alike.end; ++i) ++to[i].alike;
      continue;
    }
    alike.call = call;
    alike.begin = to.size();
    for (const auto& [choice, selected, facts, dispatch] : choices_of(stepper, n)) {
      TuningPoint point{choice, facts.traits, facts.rows.now, facts.width.now};
      if (facts.depth) point.depth = facts.depth->now;
      // Some nodes do the same in calls of all sizes, such as those of the last token.
      if (is_known(to, first, call, n, point) || std::ranges::find(alike.points, point) != alike.points.end()) continue;
      alike.points.push_back(point);
      TuningCase one{
          .point = point, .variants = {selected}, .node = n, .call = call, .position = call - first, .work = work};
      for (std::size_t v = 0; v < choice->variants.size(); ++v) {
        if (v != selected && is_right(*choice, v, facts, plan.profile())) one.variants.push_back(v);
      }
      if (one.variants.size() > 1) to.push_back(std::move(one));
    }
    alike.end = to.size();
  }
}

/// The most important nodes first.
void sort_cases(std::vector<TuningCase>& cases) {
  std::map<std::uint32_t, double> work;
  for (const auto& one : cases) work[one.node] += static_cast<double>(one.work) * static_cast<double>(one.alike);
  // By their places: those of one node and call stay as they are.
  std::vector<std::size_t> order(cases.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t i, std::size_t j) {
    const auto& a = cases[i];
    const auto& b = cases[j];
    if (a.node == b.node) return a.call != b.call ? a.call < b.call : i < j;
    return work[a.node] != work[b.node] ? work[a.node] > work[b.node] : a.node < b.node;
  });
  std::vector<TuningCase> sorted;
  sorted.reserve(cases.size());
  for (const auto i : order) sorted.push_back(std::move(cases[i]));
  cases = std::move(sorted);
}

}  // namespace

std::vector<std::vector<std::int64_t>> size_ladder(std::span<const std::int64_t> bounds) {
  Size most = 1;
  for (const auto bound : bounds) most = most * Size::from_signed(bound);
  const std::uint64_t end = most.valid() ? most.unchecked() : std::numeric_limits<std::uint64_t>::max();
  std::vector<std::vector<std::int64_t>> ladder;
  for (std::uint64_t target = 1;; target *= target == 1 || target == 2 ? 2 : 4) {
    std::vector<std::int64_t> sizes;
    std::uint64_t left = std::min(target, end);
    for (const auto bound : bounds) {
      sizes.push_back(static_cast<std::int64_t>(std::clamp<std::uint64_t>(left, 1, static_cast<std::uint64_t>(bound))));
      left = Size(left).div_up(static_cast<std::uint64_t>(sizes.back())).unchecked();
    }
    if (ladder.empty() || ladder.back() != sizes) ladder.push_back(std::move(sizes));
    if (target >= end || target > (std::uint64_t{1} << 60)) break;
  }
  return ladder;
}

TuningCases find_cases(const std::shared_ptr<const Plan>& plan, IsStopWanted is_stop_wanted) {
  Trial trial(plan, is_stop_wanted);
  const auto sizes = trial.free_sizes();
  std::vector<std::int64_t> bounds;
  bounds.reserve(sizes.size());
  for (const auto& size : sizes) bounds.push_back(size.bound);
  TuningCases found;
  AllAlike alike;
  for (const auto& values : size_ladder(bounds)) {
    const auto first = found.calls.size();
    const auto add = [&] {
      add_cases(trial.stepper(), first, found.calls.size(), alike, found.cases);
      found.calls.push_back(trial.call());
    };
    if (!trial.takes(sizes, values)) continue;
    add();
    // What depends on the position, such as the number of keys, is measured at the last one, too, and between.
    const auto later = trial.later_positions(values);
    const auto last = std::ranges::find_if(later, [&](std::int64_t p) { return trial.takes(sizes, values, p); });
    if (last == later.end()) continue;
    if (*last > Trial::kFar && trial.takes(sizes, values, Trial::kFar)) add();
    if (trial.takes(sizes, values, *last)) add();
  }
  found.is_complete = !trial.was_stopped();
  sort_cases(found.cases);
  return found;
}

}  // namespace nibble
