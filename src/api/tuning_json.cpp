#include "api/tuning_json.hpp"

#include <nlohmann/json.hpp>

#include "option_fields.hpp"

namespace nibble {
namespace {

using Json = nlohmann::ordered_json;

Status take_name(const Json& row, std::size_t index, const char* field, std::string& to) {
  const auto found = row.find(field);
  if (found == row.end()) return fail(ErrorCode::invalid_argument, tuning_errors::no_field, index, field);
  if (!found->is_string()) {
    return fail(ErrorCode::invalid_argument, tuning_errors::no_text, index, field);
  }
  to = found->get<std::string>();
  return {};
}

Status take_range(const Json& row, std::size_t index, const char* field, std::uint64_t& least, std::uint64_t& most) {
  const auto found = row.find(field);
  if (found == row.end()) return {};
  if (!found->is_array() || found->size() != 2 || !(*found)[0].is_number_unsigned() ||
      !(*found)[1].is_number_unsigned()) {
    return fail(ErrorCode::invalid_argument, tuning_errors::no_range, index, field);
  }
  least = (*found)[0].get<std::uint64_t>();
  most = (*found)[1].get<std::uint64_t>();
  return {};
}

Result<TuningRow> row_of(const Json& json, std::size_t index) {
  if (!json.is_object()) return fail(ErrorCode::invalid_argument, tuning_errors::no_object, index);
  TuningRow row;
  TRY(take_name(json, index, "choice", row.choice));
  TRY(take_name(json, index, "variant", row.variant));
  TRY(take_range(json, index, "rows", row.min_rows, row.max_rows));
  TRY(take_range(json, index, "width", row.min_width, row.max_width));
  for (const auto& [field, value] : json.items()) {
    // Without this, a misspelled range would silently mean all sizes.
    if (field != "choice" && field != "variant" && field != "rows" && field != "width") {
      return fail(ErrorCode::invalid_argument, tuning_errors::unknown, index, field);
    }
  }
  return row;
}

}  // namespace

Result<std::vector<TuningRow>> tuning_from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return fail(ErrorCode::invalid_argument, "the tuning is not a JSON object");
  const auto choices = json.find("choices");
  if (choices == json.end() || !choices->is_array()) {
    return fail(ErrorCode::invalid_argument, tuning_errors::no_list);
  }
  std::vector<TuningRow> rows;
  for (const auto& choice : *choices) {
    TRY_ASSIGN(auto row, row_of(choice, rows.size()));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace nibble
