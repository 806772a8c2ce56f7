#include "api/describe.hpp"

namespace nibble {

StateInfo state_info(const StateDesc& desc, std::int64_t rows) {
  StateInfo info{
      .role = std::string(desc.role), .dtype = desc.dtype, .shape = desc.shape, .row_axis = {}, .rows = rows};
  if (desc.row_axis != StateDesc::kNoRows) info.row_axis = static_cast<std::size_t>(desc.row_axis);
  return info;
}

Result<Json> to_json(const DeviceInfo& info) {
  Json json = {{"index", info.index}, {"number", info.number}};
  TRY_ASSIGN(const Json profile, Json::parse(info.profile_json));
  for (const auto& [name, value] : *profile.as<Json::Object>()) json[name] = value;
  return json;
}

Json to_json(const StateInfo& state) {
  Json json = {{"role", state.role},
               {"dtype", to_string(state.dtype)},
               {"shape", state.shape.dims()},
               {"row_axis", nullptr},
               {"rows", state.rows}};
  if (state.row_axis) json["row_axis"] = *state.row_axis;
  return json;
}

Json to_json(const ConstantMethod& method) {
  Json values = Json::array();
  for (const auto& value : method.values) values.push_back(Json::parse(value).value_or(nullptr));
  return values;
}

Json to_json(std::span<const ConstantMethod> methods) {
  Json json = Json::object();
  for (const auto& method : methods) {
    const Json values = to_json(method);
    // A file may have very many: this does not look for the name among them.
    json.append(method.name, method.values.size() == 1 ? values.as<Json::Array>()->front() : values);
  }
  return json;
}

}  // namespace nibble
