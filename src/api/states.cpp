#include "api/states.hpp"

namespace nibble {

StateInfo state_info(const StateDesc& desc, std::int64_t rows) {
  StateInfo info{
      .role = std::string(desc.role), .dtype = desc.dtype, .shape = desc.shape, .row_axis = {}, .rows = rows};
  if (desc.row_axis != StateDesc::kNoRows) info.row_axis = static_cast<std::size_t>(desc.row_axis);
  return info;
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

}  // namespace nibble
