#include "api/tuning_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/tuning.hpp"

namespace nibble {
namespace {

using Json = nlohmann::ordered_json;

WrittenField field_of(std::string_view name, const Json& value) {
  WrittenField field{.name = name};
  if (value.is_string()) {
    field.kind = WrittenField::Kind::text;
    field.text = value.get_ref<const std::string&>();
  } else if (value.is_array() && std::ranges::all_of(value, [](const Json& n) { return n.is_number_unsigned(); })) {
    field.kind = WrittenField::Kind::numbers;
    field.count = value.size();
    for (std::size_t i = 0; i < std::min(field.count, field.numbers.size()); ++i) value[i].get_to(field.numbers[i]);
  }
  return field;
}

Result<TuningRow> row_of(std::size_t index, const Json& json) {
  if (!json.is_object()) return read_choice(index, std::nullopt);
  std::vector<WrittenField> fields;
  for (const auto& [name, value] : json.items()) fields.push_back(field_of(name, value));
  return read_choice(index, fields);
}

}  // namespace

Result<std::vector<TuningRow>> tuning_from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return fail(ErrorCode::invalid_argument, "the tuning is not a JSON object");
  const auto choices = json.find("choices");
  if (choices == json.end() || !choices->is_array()) return std::unexpected(no_choices());
  std::vector<TuningRow> rows;
  for (const auto& choice : *choices) {
    TRY_ASSIGN(auto row, row_of(rows.size(), choice));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace nibble
