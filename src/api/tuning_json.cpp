#include "api/tuning_json.hpp"

#include <algorithm>
#include <cmath>

#include "nibble/nibble.hpp"

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
  if (to.size() + choices->as<Json::Array>()->size() > kMostTuningRows) {
    return fail(ErrorCode::invalid_argument, "the tuning has more than {} choices", kMostTuningRows);
  }
  std::size_t index = 0;
  for (const auto& choice : *choices->as<Json::Array>()) {
    TRY_ASSIGN(auto row, row_of(index++, choice));
    row.on = on;
    to.push_back(std::move(row));
  }
  return {};
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
  if (row.max_depth != TuningRow().max_depth) {
    for (const auto end : {row.min_depth, row.max_depth}) json["depth"].push_back(end);
  }
  if (tuned.times.empty()) return json;
  json["before"] = tuned.before;
  json["ops"] = tuned.ops;
  Json times = Json::object();
  for (const auto& [variant, us] : tuned.times) times.append(variant, std::round(us * 100) / 100);
  json["times"] = std::move(times);
  return json;
}

}  // namespace

Result<TunedOn> tuned_on(const Json& tuning) {
  std::vector<WrittenField> fields;
  for (const auto& [name, member] : kTunedOn) {
    if (const Json* field = tuning.find(name)) fields.push_back(field_of(name, *field));
  }
  return read_tuned_on(fields);
}

Result<std::vector<TuningRow>> rows_of(const Json& tuning) {
  std::vector<TuningRow> rows;
  TRY(read_choices(tuning, {}, rows));
  return rows;
}

const Json::Array* tunings_of(const Json& document) {
  const Json* list = document.find("tunings");
  return list != nullptr ? list->as<Json::Array>() : nullptr;
}

Status check_tuning_count(std::size_t count) {
  if (count <= kMostTunings) return {};
  return fail(ErrorCode::invalid_argument, "there are {} tunings in one document, but {} are the most", count,
              kMostTunings);
}

Result<Json> parse_tuning(std::string_view text) {
  if (text.size() > kMostTuningBytes) {
    return fail(ErrorCode::invalid_argument, "the tuning has {} bytes, but {} are the most", text.size(),
                kMostTuningBytes);
  }
  auto json = Json::parse(text);
  if (!json || json->as<Json::Object>() == nullptr) {
    return fail(ErrorCode::invalid_argument, "the tuning is not a JSON object");
  }
  if (const auto* tunings = tunings_of(*json)) TRY(check_tuning_count(tunings->size()));
  return json;
}

Result<std::vector<TuningRow>> tuning_from_json(std::string_view text) {
  TRY_ASSIGN(const Json json, parse_tuning(text));
  std::vector<TuningRow> rows;
  const auto* tunings = tunings_of(json);
  if (tunings == nullptr) {
    TRY(read_choices(json, {}, rows));
    return rows;
  }
  for (const auto& tuning : *tunings) {
    TRY_ASSIGN(auto on, tuned_on(tuning));
    if (is_of_this_version(on)) {
      TRY(read_choices(tuning, on, rows));
    } else {
      rows.push_back({.on = std::move(on)});  // whatever its choices are, they are not for this one
    }
  }
  return rows;
}

bool is_of_this_version(const TunedOn& on) { return on.nibble.empty() || on.nibble == version(); }

TunedOn tuned_on(const DeviceProfile& profile) {
  return {profile.name, profile.driver, profile.engine, std::string(version())};
}

Json to_json(std::span<const TunedRow> rows, const TunedOn& on) {
  Json json = Json::object();
  for (const auto& [name, member] : kTunedOn) json[name] = on.*member;
  json["choices"] = Json::array();
  for (const auto& row : rows) json["choices"].push_back(to_json(row));
  return json;
}

UsableTuning usable_tuning(std::vector<TuningRow> rows, const DeviceProfile& profile) {
  return usable_tuning(std::move(rows), tuned_on(profile));
}

}  // namespace nibble
