#include "plan/variant.hpp"

#include <algorithm>
#include <tuple>

#include "plan/bounds.hpp"
#include "plan/tuning.hpp"

namespace nibble {
namespace {

enum class Answer : std::uint8_t { never, sometimes, always };

Answer both(Answer a, Answer b) { return std::min(a, b); }

Answer lies(const Extent& extent, std::uint64_t min, std::uint64_t max) {
  if (extent.most < min || extent.least > max) return Answer::never;
  return extent.least >= min && extent.most <= max ? Answer::always : Answer::sometimes;
}

bool suits(const When& when, const DeviceProfile& profile) {
  const bool is_cpu = profile.kind == AdapterKind::cpu;
  if (when.adapters == Adapters::cpu && !is_cpu) return false;
  if (when.adapters == Adapters::gpu && is_cpu) return false;
  return !when.subgroups || profile.subgroups;
}

/// Whether facts in these ranges meet a condition.
Answer meets(const Facts& facts, const When& when, const DeviceProfile& profile) {
  if (!suits(when, profile)) return Answer::never;
  const auto fixed = ~facts.varies;
  if ((when.traits & fixed & ~facts.traits) != 0 || (when.none_of & fixed & facts.traits) != 0) return Answer::never;
  const bool depends = ((when.traits | when.none_of) & facts.varies) != 0;
  const auto sizes =
      both(lies(facts.rows, when.min_rows, when.max_rows), lies(facts.width, when.min_width, when.max_width));
  return both(both(sizes, lies(facts.depth.value_or(Extent{}), when.min_depth, when.max_depth)),
              depends ? Answer::sometimes : Answer::always);
}

/// The facts of this call alone.
Facts now(const Facts& facts) {
  Facts exact{.rows = {facts.rows.now}, .width = {facts.width.now}, .traits = facts.traits};
  if (facts.depth) exact.depth = Extent{facts.depth->now};
  return exact;
}

Answer are_right(const Facts& facts, const Variant& variant, const DeviceProfile& profile) {
  const auto& limits = profile.limits;
  if (variant.tile.threads > std::min(limits.max_workgroup_invocations, limits.max_workgroup_size_x) ||
      variant.tile.bytes > limits.max_workgroup_bytes) {
    return Answer::never;
  }
  return meets(facts, variant.right, profile);
}

std::string names_of(std::span<const Choice* const> choices) {
  std::vector<std::string_view> names;
  names.reserve(choices.size());
  for (const auto* choice : choices) names.push_back(choice->name);
  return joined(names);
}

std::string names_of(std::span<const Variant> variants) {
  std::vector<std::string_view> names;
  names.reserve(variants.size());
  for (const auto& variant : variants) names.push_back(variant.name);
  return joined(names);
}

Result<std::pair<const Choice*, std::size_t>> look_up(std::string_view choice, std::string_view variant,
                                                      std::span<const Choice* const> known) {
  const auto found = std::ranges::find(known, choice, &Choice::name);
  if (found == known.end()) {
    return fail(ErrorCode::invalid_argument, "there is no choice '{}' between kernels; the choices are {}",
                shown(choice), names_of(known));
  }
  const auto& variants = (*found)->variants;
  const auto row = std::ranges::find(variants, variant, &Variant::name);
  if (row == variants.end()) {
    return fail(ErrorCode::invalid_argument, "the choice '{}' has no variant '{}'; the variants are {}", choice,
                shown(variant), names_of(variants));
  }
  return std::pair{*found, static_cast<std::size_t>(row - variants.begin())};
}

When when_of(const TuningRow& row) {
  When when{.min_rows = row.min_rows,
            .max_rows = row.max_rows,
            .min_width = row.min_width,
            .max_width = row.max_width,
            .min_depth = row.min_depth,
            .max_depth = row.max_depth};
  if (row.traits) {
    when.traits = *row.traits;
    when.none_of = ~*row.traits;
  }
  return when;
}

/// Whether a row of a tuning is for one number of rows, one width and just these traits; by which it is found.
bool is_for_one_size(const When& when) {
  return when.min_rows == when.max_rows && when.min_width == when.max_width && when.none_of == ~when.traits;
}
std::tuple<std::uint64_t, std::uint64_t, std::uint32_t> tuned_size(const When& when) {
  return {when.min_rows, when.min_width, when.traits};
}

}  // namespace

bool is_right(const Choice& choice, std::size_t variant, const Facts& facts, const DeviceProfile& profile) {
  return are_right(now(facts), choice.variants[variant], profile) == Answer::always;
}

Result<Preferences> Preferences::make(const Options& options, std::span<const Choice* const> known) {
  TRY(check_tuning(options.tuning));
  Preferences made;
  std::vector<const Choice*> all(known.begin(), known.end());
  all.push_back(&kBounds);
  for (const auto& forced : options.variants) {
    TRY_ASSIGN(const auto found, look_up(forced.choice, forced.variant, all));
    made.of(*found.first).add({found.second, {}});
  }
  for (const auto& row : options.tuning) {
    TRY_ASSIGN(const auto found, look_up(row.choice, row.variant, all));
    auto& of = made.of(*found.first);
    of.add({found.second, when_of(row)});
    if (of.all.size() > kMostRows) {
      return fail(ErrorCode::invalid_argument, "the tuning has more than {} rows for the choice '{}'", kMostRows,
                  row.choice);
    }
  }
  for (auto& one : made.preferred_) {
    std::ranges::sort(one.sizes, {}, [&](std::size_t i) { return std::pair(tuned_size(one.all[i].when), i); });
  }
  return made;
}

Preferences Preferences::with_all() const {
  Preferences all = *this;
  all.all_ = true;
  return all;
}

Preferences::Preferred& Preferences::of(const Choice& choice) {
  const auto found = std::ranges::find(preferred_, &choice, &Preferred::choice);
  return found != preferred_.end() ? *found : preferred_.emplace_back(Preferred{.choice = &choice});
}

void Preferences::Preferred::add(const Preference& preference) {
  (is_for_one_size(preference.when) ? sizes : ranges).push_back(all.size());
  all.push_back(preference);
}

/// The first that `is` says to be right.
template <class F>
const Preferences::Preference* Preferences::Preferred::find(const Facts& now, F&& is) const {
  const auto key = std::tuple(now.rows.now, now.width.now, now.traits);
  const auto by_size = std::ranges::equal_range(sizes, key, {}, [&](std::size_t i) { return tuned_size(all[i].when); });
  const auto is_here = [&](std::size_t i) { return is(all[i]); };
  const auto one = std::ranges::find_if(by_size, is_here);
  const auto end = one != by_size.end() ? std::ranges::lower_bound(ranges, *one) : ranges.end();
  const auto range = std::find_if(ranges.begin(), end, is_here);
  if (range != end) return &all[*range];
  return one != by_size.end() ? &all[*one] : nullptr;
}

/// Calls `f(variant, when)` in the table's own order of preference, until it returns true.
template <class F>
void Preferences::for_each(const Choice& choice, const DeviceProfile& profile, F&& f) {
  // Whoever forces or tunes a form that needs subgroups knows more about them than the engine tells.
  const auto is_known = [&](std::size_t v) {
    return !choice.variants[v].right.subgroups || profile.has_even_subgroups();
  };
  for (std::size_t v = 0; v < choice.variants.size(); ++v) {
    if (is_known(v) && f(v, choice.variants[v].best)) return;
  }
  for (std::size_t v = 0; v < choice.variants.size(); ++v) {
    if (is_known(v) && f(v, When{})) return;
  }
}

std::size_t Preferences::pick(const Choice& choice, const Facts& facts, const DeviceProfile& profile) const {
  std::size_t picked = choice.variants.size() - 1;
  const Facts exact = now(facts);
  const auto is = [&](std::size_t v, const When& when) {
    return are_right(exact, choice.variants[v], profile) == Answer::always &&
           meets(exact, when, profile) == Answer::always;
  };
  if (const auto found = std::ranges::find(preferred_, &choice, &Preferred::choice); found != preferred_.end()) {
    const auto* first = found->find(exact, [&](const Preference& p) { return is(p.variant, p.when); });
    if (first != nullptr) return first->variant;
  }
  for_each(choice, profile, [&](std::size_t v, const When& when) {
    if (!is(v, when)) return false;
    picked = v;
    return true;
  });
  return picked;
}

std::vector<std::size_t> Preferences::possible(const Choice& choice, const Facts& facts,
                                               const DeviceProfile& profile) const {
  std::vector<std::size_t> all;
  bool is_certain = false;
  const auto add_once = [&](std::size_t v) {
    if (std::ranges::find(all, v) == all.end()) all.push_back(v);
  };
  const auto add = [&](std::size_t v, const When& when) {
    const auto answer = both(are_right(facts, choice.variants[v], profile), meets(facts, when, profile));
    if (answer == Answer::never) return false;
    add_once(v);
    is_certain = is_certain || answer == Answer::always;
    return is_certain && !all_;
  };
  const auto found = std::ranges::find(preferred_, &choice, &Preferred::choice);
  const bool is_done = found != preferred_.end() &&
                       std::ranges::any_of(found->all, [&](const Preference& p) { return add(p.variant, p.when); });
  if (!is_done) for_each(choice, profile, add);
  if (!is_certain) add_once(choice.variants.size() - 1);
  for (std::size_t v = 0; all_ && v < choice.variants.size(); ++v) {
    if (are_right(facts, choice.variants[v], profile) != Answer::never) add_once(v);
  }
  return all;
}

}  // namespace nibble
