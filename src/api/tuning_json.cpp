#include "api/tuning_json.hpp"

#include <algorithm>

#include "api/json.hpp"
#include "plan/tuning.hpp"

namespace nibble {
namespace {

WrittenField field_of(std::string_view name, const Json& value) {
  WrittenField field{.name = name};
  const auto number = [](const Json& n) { return n.as<std::uint64_t>(); };
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

}  // namespace

Result<std::vector<TuningRow>> tuning_from_json(std::string_view text) {
  const auto json = Json::parse(text);
  if (!json || json->as<Json::Object>() == nullptr) {
    return fail(ErrorCode::invalid_argument, "the tuning is not a JSON object");
  }
  const Json* choices = json->find("choices");
  if (choices == nullptr || choices->as<Json::Array>() == nullptr) return std::unexpected(no_choices());
  std::vector<TuningRow> rows;
  for (const auto& choice : *choices->as<Json::Array>()) {
    TRY_ASSIGN(auto row, row_of(rows.size(), choice));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace nibble
