#include "api/profile_json.hpp"

#include <nlohmann/json.hpp>

namespace nibble {
namespace {

using Json = nlohmann::ordered_json;

/// Reads the fields of an object. The first one that is missing or of the wrong type is the error.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) {}

  void take(const char* name, std::string& to) {
    if (const Json* field = find(name, &Json::is_string, "a text")) to = field->get<std::string>();
  }
  void take(const char* name, bool& to) {
    if (const Json* field = find(name, &Json::is_boolean, "true or false")) to = field->get<bool>();
  }
  template <class T>
  void take(const char* name, T& to) {
    const Json* field = find(name, &Json::is_number_unsigned, "a number from 0 on");
    if (field == nullptr) return;
    const auto value = field->get<std::uint64_t>();
    if (value > std::numeric_limits<T>::max()) {
      status_ = fail(ErrorCode::invalid_argument, "the device profile's {} is {}, but the most is {}", name, value,
                     std::numeric_limits<T>::max());
      return;
    }
    to = static_cast<T>(value);
  }

  const Status& status() const { return status_; }

 private:
  const Json* find(const char* name, bool (Json::*is_right)() const noexcept, std::string_view wanted) {
    if (!status_) return nullptr;
    auto field = object_.find(name);
    if (field == object_.end()) {
      status_ = fail(ErrorCode::invalid_argument, "the device profile has no {}", name);
    } else if (!((*field).*is_right)()) {
      status_ = fail(ErrorCode::invalid_argument, "the device profile's {} is not {}", name, wanted);
    } else {
      return &*field;
    }
    return nullptr;
  }

  const Json& object_;
  Status status_;
};

}  // namespace

std::string profile_to_json(const DeviceProfile& profile) {
  const Limits& limits = profile.limits;
  Json json = {
      {"name", profile.name},
      {"driver", profile.driver},
      {"backend", profile.backend},
      {"engine", profile.engine},
      {"kind", to_string(profile.kind)},
      {"max_buffer_size", limits.max_buffer_size},
      {"max_storage_binding_size", limits.max_storage_binding_size},
      {"max_workgroups_per_dimension", limits.max_workgroups_per_dimension},
      {"max_workgroup_invocations", limits.max_workgroup_invocations},
      {"max_workgroup_size_x", limits.max_workgroup_size_x},
      {"shader_f16", profile.shader_f16},
      {"subgroups", profile.subgroups},
      {"packed_dot", profile.packed_dot},
      {"timestamp_query", profile.timestamp_query},
      {"subgroup_max", profile.subgroup_max},
      {"subgroups_need_enable", profile.subgroups_need_enable},
  };
  // A driver's name may be invalid UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<DeviceProfile> profile_from_json(std::string_view text) {
  const Json parsed = Json::parse(text, nullptr, false);
  const Json& json = parsed.is_array() && parsed.size() == 1 ? parsed.front() : parsed;
  if (!json.is_object()) return fail(ErrorCode::invalid_argument, "the device profile is not a JSON object");
  DeviceProfile profile;
  Limits& limits = profile.limits;
  std::string kind;
  Reader reader(json);
  reader.take("name", profile.name);
  reader.take("driver", profile.driver);
  reader.take("backend", profile.backend);
  // Not in profiles that were made when there was one engine.
  if (json.contains("engine")) reader.take("engine", profile.engine);
  reader.take("kind", kind);
  reader.take("max_buffer_size", limits.max_buffer_size);
  reader.take("max_storage_binding_size", limits.max_storage_binding_size);
  reader.take("max_workgroups_per_dimension", limits.max_workgroups_per_dimension);
  reader.take("max_workgroup_invocations", limits.max_workgroup_invocations);
  reader.take("max_workgroup_size_x", limits.max_workgroup_size_x);
  reader.take("shader_f16", profile.shader_f16);
  reader.take("subgroups", profile.subgroups);
  reader.take("packed_dot", profile.packed_dot);
  reader.take("timestamp_query", profile.timestamp_query);
  reader.take("subgroup_max", profile.subgroup_max);
  reader.take("subgroups_need_enable", profile.subgroups_need_enable);
  TRY(reader.status());
  for (auto one : {AdapterKind::discrete, AdapterKind::integrated, AdapterKind::cpu, AdapterKind::unknown}) {
    if (to_string(one) != kind) continue;
    profile.kind = one;
    return profile;
  }
  return fail(ErrorCode::invalid_argument,
              "the device profile's kind is \"{}\", but it must be discrete, integrated, cpu or unknown", kind);
}

}  // namespace nibble
