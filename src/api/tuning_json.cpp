#include "api/tuning_json.hpp"

#include <algorithm>
#include <cmath>

#include "nibble/nibble.hpp"
#include "plan/tuning.hpp"

namespace nibble {
namespace {

WrittenField field_of(std::string_view name, const Json& value) {
  WrittenField field{.name = name};
  const auto number = [](const Json& n) { return n.as<std::uint64_t>(); };
  if (const auto* one = number(value)) {
    field.kind = WrittenField::Kind::numbers;
    field.count = 1;
    field.numbers[0] = *one;
  }
  if (const auto* text = value.as<std::string>()) {
    field.kind = WrittenField::Kind::text;
    field.text = *text;
  } else if (const auto* list = value.as<Json::Array>(); list != nullptr && std::ranges::all_of(*list, number)) {
    field.kind = WrittenField::Kind::numbers;
    field.count = list->size();
    for (std::size_t i = 0; i < std::min(field.count, field.numbers.size()); ++i)
      field.numbers[i] = *number((*list)[i]);
  }
  return field;
}

Result<TuningRow> row_of(std::size_t index, const Json& json) {
  const auto* members = json.as<Json::Object>();
  if (members == nullptr) return read_choice(index, std::nullopt);
  std::vector<WrittenField> fields;
  for (const auto& [name, value] : *members) fields.push_back(field_of(name, value));
  return read_choice(index, fields);
}

Status read_choices(const Json& json, const TunedOn& on, std::vector<TuningRow>& to) {
  const Json* choices = json.find("choices");
  if (choices == nullptr || choices->as<Json::Array>() == nullptr) return std::unexpected(no_choices());
  std::size_t index = 0;
  for (const auto& choice : *choices->as<Json::Array>()) {
    TRY_ASSIGN(auto row, row_of(index++, choice));
    row.on = on;
    to.push_back(std::move(row));
  }
  return {};
}

constexpr std::array kOn = {std::pair{"device", &TunedOn::device}, std::pair{"driver", &TunedOn::driver},
                            std::pair{"engine", &TunedOn::engine}, std::pair{"nibble", &TunedOn::nibble}};

Result<TunedOn> on_of(const Json& tuning) {
  TunedOn on;
  for (const auto& [name, member] : kOn) {
    const Json* field = tuning.find(name);
    const auto* text = field != nullptr ? field->as<std::string>() : nullptr;
    if (text == nullptr) return fail(ErrorCode::invalid_argument, "a tuning does not say for which {} it is", name);
    on.*member = *text;
  }
  return on;
}

/// The list of "tunings", null if there is none.
const Json::Array* tunings_of(const Json& document) {
  const Json* list = document.find("tunings");
  return list != nullptr ? list->as<Json::Array>() : nullptr;
}

Result<Json> parse(std::string_view text) {
  auto json = Json::parse(text);
  if (!json || json->as<Json::Object>() == nullptr) {
    return fail(ErrorCode::invalid_argument, "the tuning is not a JSON object");
  }
  return json;
}

Json to_json(const TunedRow& tuned) {
  const TuningRow& row = tuned.row;
  Json json = {{"choice", row.choice},
               {"variant", row.variant},
               {"rows", Json::array()},
               {"width", Json::array()},
               {"traits", row.traits.value_or(0)}};
  for (const auto end : {row.min_rows, row.max_rows}) json["rows"].push_back(end);
  for (const auto end : {row.min_width, row.max_width}) json["width"].push_back(end);
  if (tuned.times.empty()) return json;
  json["before"] = tuned.before;
  json["ops"] = tuned.ops;
  Json times = Json::object();
  for (const auto& [variant, us] : tuned.times) times.append(variant, std::round(us * 100) / 100);
  json["times"] = std::move(times);
  return json;
}

std::string told(const TunedOn& on) {
  return fmt::format("{} ({}, {}) and Nibble {}", on.device, on.driver.empty() ? "any driver" : on.driver,
                     on.engine.empty() ? "a browser" : on.engine, on.nibble);
}

}  // namespace

Result<std::vector<TuningRow>> tuning_from_json(std::string_view text) {
  TRY_ASSIGN(const Json json, parse(text));
  std::vector<TuningRow> rows;
  const auto* tunings = tunings_of(json);
  if (tunings == nullptr) {
    TRY(read_choices(json, {}, rows));
    return rows;
  }
  for (const auto& tuning : *tunings) {
    TRY_ASSIGN(const auto on, on_of(tuning));
    TRY(read_choices(tuning, on, rows));
  }
  return rows;
}

TunedOn tuned_on(const DeviceProfile& profile) {
  return {profile.name, profile.driver, profile.engine, std::string(version())};
}

Json to_json(std::span<const TunedRow> rows, const TunedOn& on) {
  Json json = Json::object();
  for (const auto& [name, member] : kOn) json[name] = on.*member;
  json["choices"] = Json::array();
  for (const auto& row : rows) json["choices"].push_back(to_json(row));
  return json;
}

Result<std::string> merge_tuning(std::string_view text, Json tuning) {
  Json merged = {{"tunings", Json::array()}};
  TRY_ASSIGN(auto on, on_of(tuning));
  if (!text.empty()) {
    TRY(tuning_from_json(text));
    TRY_ASSIGN(const Json before, parse(text));
    const auto* tunings = tunings_of(before);
    if (tunings == nullptr) return fail(ErrorCode::invalid_argument, "the tuning has no list of tunings to add one to");
    for (const auto& one : *tunings) {
      TRY_ASSIGN(auto other, on_of(one));
      other.nibble = on.nibble;  // one of an earlier version is of no use any more
      if (other != on) merged["tunings"].push_back(one);
    }
  }
  merged["tunings"].push_back(std::move(tuning));
  return merged.dump(1) + '\n';
}

UsableTuning usable_tuning(std::vector<TuningRow> rows, const DeviceProfile& profile) {
  const TunedOn here = tuned_on(profile);
  UsableTuning usable;
  const TunedOn* other = nullptr;
  for (auto& row : rows) {
    const bool is_for_it = std::ranges::all_of(
        kOn, [&](const auto& one) { return (row.on.*one.second).empty() || row.on.*one.second == here.*one.second; });
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

}  // namespace nibble
