#include "plan/tuning.hpp"

#include <algorithm>
#include <utility>

namespace nibble {
namespace {

constexpr auto kInvalid = ErrorCode::invalid_argument;

const WrittenField* find(std::span<const WrittenField> fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &WrittenField::name);
  return found == fields.end() ? nullptr : &*found;
}

/// The error for choices[index], or for one of its fields.
std::unexpected<Error> wrong(std::size_t index, std::string_view field, std::string_view what) {
  return fail(kInvalid, "choices[{}]{}{} of the tuning {}", index, field.empty() ? "" : ".", field, what);
}

Status take_name(std::span<const WrittenField> fields, std::size_t index, std::string_view name, std::string& to) {
  const auto* field = find(fields, name);
  if (field == nullptr) return wrong(index, {}, fmt::format("has no {}", name));
  if (field->kind != WrittenField::Kind::text) return wrong(index, name, "is not a text");
  to = field->text;
  return {};
}

Status take_range(std::span<const WrittenField> fields, std::size_t index, std::string_view name, std::uint64_t& least,
                  std::uint64_t& most) {
  const auto* field = find(fields, name);
  if (field == nullptr) return {};
  if (field->kind != WrittenField::Kind::numbers || field->count != field->numbers.size()) {
    return wrong(index, name, "is not two whole numbers from 0 on");
  }
  least = field->numbers[0];
  most = field->numbers[1];
  return {};
}

Status take_traits(std::span<const WrittenField> fields, std::size_t index, std::optional<std::uint32_t>& to) {
  const auto* field = find(fields, "traits");
  if (field == nullptr) return {};
  const bool is_one = field->kind == WrittenField::Kind::numbers && field->count == 1;
  if (!is_one || !std::in_range<std::uint32_t>(field->numbers[0])) {
    return wrong(index, "traits", "is not a number of 32 bits");
  }
  to = static_cast<std::uint32_t>(field->numbers[0]);
  return {};
}

constexpr std::array<std::string_view, 6> kRead = {"choice", "variant", "rows", "width", "depth", "traits"};
constexpr std::array<std::string_view, 3> kNotes = {"before", "ops", "times"};  ///< what a tuner says beside

/// Without this, a misspelled range would silently mean all sizes.
Status check_names(std::span<const WrittenField> fields, std::size_t index) {
  for (const auto& field : fields) {
    const auto name = field.name;
    if (std::ranges::find(kRead, name) != kRead.end() || std::ranges::find(kNotes, name) != kNotes.end()) continue;
    return wrong(
        index, {},
        fmt::format("has the unknown field '{}'; the fields are choice, variant, rows, width, depth and traits",
                    shown(name)));
  }
  return {};
}

std::string told(const TunedOn& on) {
  return fmt::format("{} ({}, {}) and Nibble {}", shown(on.device), on.driver.empty() ? "any driver" : shown(on.driver),
                     on.engine.empty() ? "any engine" : shown(on.engine), shown(on.nibble));
}

}  // namespace

Result<ForcedVariant> parse_variant(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == 0 || equals >= text.size() - 1 || text.find('=', equals + 1) != std::string_view::npos) {
    return fail(kInvalid, "'{}' forces no variant; it must look like product=tile", shown(text));
  }
  return ForcedVariant{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

Result<TuningRow> read_choice(std::size_t index, std::optional<std::span<const WrittenField>> fields) {
  if (!fields) return wrong(index, {}, "is not an object");
  TuningRow row;
  TRY(take_name(*fields, index, "choice", row.choice));
  TRY(take_name(*fields, index, "variant", row.variant));
  TRY(take_range(*fields, index, "rows", row.min_rows, row.max_rows));
  TRY(take_range(*fields, index, "width", row.min_width, row.max_width));
  TRY(take_range(*fields, index, "depth", row.min_depth, row.max_depth));
  TRY(take_traits(*fields, index, row.traits));
  TRY(check_names(*fields, index));
  return row;
}

Error no_choices() { return {kInvalid, "the tuning has no list of choices"}; }

Result<TunedOn> read_tuned_on(std::span<const WrittenField> fields) {
  TunedOn on;
  for (const auto& [name, member] : kTunedOn) {
    const auto* field = find(fields, name);
    if (field == nullptr || field->kind != WrittenField::Kind::text) {
      return fail(kInvalid, "a tuning does not say for which {} it is", name);
    }
    on.*member = field->text;
  }
  return on;
}

UsableTuning usable_tuning(std::vector<TuningRow> rows, const TunedOn& here) {
  UsableTuning usable;
  const TunedOn* other = nullptr;
  for (auto& row : rows) {
    const bool is_for_it = std::ranges::all_of(kTunedOn, [&](const auto& one) {
      return (row.on.*one.second).empty() || row.on.*one.second == here.*one.second;
    });
    if (is_for_it) {
      usable.rows.push_back(std::move(row));
    } else {
      other = &row.on;
    }
  }
  if (usable.rows.empty() && other != nullptr) {
    usable.word = fmt::format("the tuning is ignored: it is for {}, but this is {}", told(*other), told(here));
  }
  return usable;
}

Status check_tuning(std::span<const TuningRow> rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto check = [&](std::string_view what, std::uint64_t least, std::uint64_t most) -> Status {
      if (least <= most) return {};
      return wrong(i, {}, fmt::format("is for {} from {} to {}", what, least, most));
    };
    TRY(check("rows", rows[i].min_rows, rows[i].max_rows));
    TRY(check("widths", rows[i].min_width, rows[i].max_width));
    TRY(check("depths", rows[i].min_depth, rows[i].max_depth));
  }
  return {};
}

}  // namespace nibble
