#include "api/json.hpp"

#include "cli/commands.hpp"
#include "cli/table.hpp"
#include "nibble/nibble.hpp"
#include "plan/print.hpp"

namespace nibble::cli {
namespace {

std::string features(const DeviceInfo& device) {
  std::string text;
  for (const auto& [has, name] :
       {std::pair{device.shader_f16, "f16"}, {device.subgroups, "subgroups"}, {device.timestamp_query, "timestamps"}}) {
    if (has) text += (text.empty() ? "" : " ") + std::string(name);
  }
  return text;
}

}  // namespace

Status devices_command(const DevicesOptions& options) {
  TRY_ASSIGN(const auto all, devices(options.engine));
  if (options.json) {
    auto list = Json::array();
    for (const auto& device : all) list.push_back(Json::parse(device.profile_json).value_or(nullptr));
    print(list.dump(2) + '\n');
    return {};
  }
  Table table("rlllllrrrl");
  table.row({"#", "engine", "name", "kind", "backend", "driver", "buffer", "binding", "threads", "features"});
  for (const auto& device : all) {
    table.row({std::to_string(device.index), device.engine, device.name, device.kind, device.backend, device.driver,
               format_bytes(device.max_buffer_size), format_bytes(device.max_storage_binding_size),
               std::to_string(device.max_workgroup_invocations), features(device)});
  }
  print(all.empty() ? "There is no adapter that can run programs.\n" : table.text());
  return {};
}

}  // namespace nibble::cli
