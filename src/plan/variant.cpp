#include "plan/variant.hpp"

#include <algorithm>

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
  return both(both(lies(facts.rows, when.min_rows, when.max_rows), lies(facts.width, when.min_width, when.max_width)),
              depends ? Answer::sometimes : Answer::always);
}

/// The facts of this call alone.
Facts now(const Facts& facts) {
  return {.rows = {facts.rows.now}, .width = {facts.width.now}, .traits = facts.traits, .varies = 0};
}

Answer are_right(const Facts& facts, const Variant& variant, const DeviceProfile& profile) {
  const auto& limits = profile.limits;
  if (variant.tile.threads > std::min(limits.max_workgroup_invocations, limits.max_workgroup_size_x)) {
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
    return fail(ErrorCode::invalid_argument, "there is no choice '{}' between kernels; the choices are {}", choice,
                names_of(known));
  }
  const auto& variants = (*found)->variants;
  const auto row = std::ranges::find(variants, variant, &Variant::name);
  if (row == variants.end()) {
    return fail(ErrorCode::invalid_argument, "the choice '{}' has no variant '{}'; the variants are {}", choice,
                variant, names_of(variants));
  }
  return std::pair{*found, static_cast<std::size_t>(row - variants.begin())};
}

When when_of(const TuningRow& row) {
  When when{.min_rows = row.min_rows, .max_rows = row.max_rows, .min_width = row.min_width, .max_width = row.max_width};
  if (row.traits) {
    when.traits = *row.traits;
    when.none_of = ~*row.traits;
  }
  return when;
}

}  // namespace

bool is_right(const Choice& choice, std::size_t variant, const Facts& facts, const DeviceProfile& profile) {
  return are_right(now(facts), choice.variants[variant], profile) == Answer::always;
}

Result<Preferences> Preferences::make(const Options& options, std::span<const Choice* const> known) {
  TRY(check_tuning(options.tuning));
  Preferences made;
  for (const auto& forced : options.variants) {
    TRY_ASSIGN(const auto found, look_up(forced.choice, forced.variant, known));
    made.preferences_.push_back({found.first, found.second, {}});
  }
  for (const auto& row : options.tuning) {
    TRY_ASSIGN(const auto found, look_up(row.choice, row.variant, known));
    made.preferences_.push_back({found.first, found.second, when_of(row)});
  }
  return made;
}

Preferences Preferences::with_all() const {
  Preferences all = *this;
  all.all_ = true;
  return all;
}

/// Calls `f(variant, when)` in the order of preference, until it returns true.
template <class F>
void Preferences::for_each(const Choice& choice, F&& f) const {
  for (const auto& p : preferences_) {
    if (p.choice == &choice && f(p.variant, p.when)) return;
  }
  for (std::size_t v = 0; v < choice.variants.size(); ++v) {
    if (f(v, choice.variants[v].best)) return;
  }
  for (std::size_t v = 0; v < choice.variants.size(); ++v) {
    if (f(v, When{})) return;
  }
}

std::size_t Preferences::pick(const Choice& choice, const Facts& facts, const DeviceProfile& profile) const {
  std::size_t picked = choice.variants.size() - 1;
  const Facts exact = now(facts);
  for_each(choice, [&](std::size_t v, const When& when) {
    if (are_right(exact, choice.variants[v], profile) != Answer::always) return false;
    if (meets(exact, when, profile) != Answer::always) return false;
    picked = v;
    return true;
  });
  return picked;
}

std::vector<std::size_t> Preferences::possible(const Choice& choice, const Facts& facts,
                                               const DeviceProfile& profile) const {
  std::vector<std::size_t> all;
  bool is_certain = false;
  for_each(choice, [&](std::size_t v, const When& when) {
    const auto answer = both(are_right(facts, choice.variants[v], profile), meets(facts, when, profile));
    if (answer == Answer::never) return false;
    if (std::ranges::find(all, v) == all.end()) all.push_back(v);
    is_certain = is_certain || answer == Answer::always;
    return is_certain && !all_;
  });
  const std::size_t last = choice.variants.size() - 1;
  if (!is_certain && std::ranges::find(all, last) == all.end()) all.push_back(last);
  return all;
}

}  // namespace nibble
