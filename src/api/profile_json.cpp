#include "api/profile_json.hpp"

#include <limits>

#include "api/json.hpp"

namespace nibble {
namespace {

/// Reads the fields of an object. The first one that is missing or of the wrong type is the error.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) {}

  void take(const char* name, std::string& to) {
    if (const auto* field = find<std::string>(name, "a text")) to = *field;
  }
  void take(const char* name, bool& to) {
    if (const auto* field = find<bool>(name, "true or false")) to = *field;
  }
  template <class T>
  void take(const char* name, T& to) {
    const auto* value = find<std::uint64_t>(name, "a number from 0 on");
    if (value == nullptr) return;
    if (*value > std::numeric_limits<T>::max()) {
      status_ = fail(ErrorCode::invalid_argument, "the device profile's {} is {}, but the most is {}", name, *value,
                     std::numeric_limits<T>::max());
      return;
    }
    to = static_cast<T>(*value);
  }

  const Status& status() const { return status_; }

 private:
  template <class T>
  const T* find(const char* name, std::string_view wanted) {
    if (!status_) return nullptr;
    const Json* field = object_.find(name);
    if (field == nullptr) {
      status_ = fail(ErrorCode::invalid_argument, "the device profile has no {}", name);
    } else if (field->as<T>() == nullptr) {
      status_ = fail(ErrorCode::invalid_argument, "the device profile's {} is not {}", name, wanted);
    } else {
      return field->as<T>();
    }
    return nullptr;
  }

  const Json& object_;
  Status status_;
};

}  // namespace

std::string profile_to_json(const DeviceProfile& profile) {
  const Limits& limits = profile.limits;
  const Json json = {
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
      {"max_workgroup_bytes", limits.max_workgroup_bytes},
      {"shader_f16", profile.shader_f16},
      {"subgroups", profile.subgroups},
      {"packed_dot", profile.packed_dot},
      {"timestamp_query", profile.timestamp_query},
      {"mapped_storage", profile.mapped_storage},
      {"subgroup_min", profile.subgroup_min},
      {"unchecked_kernels", profile.unchecked_kernels},
      {"subgroup_max", profile.subgroup_max},
      {"subgroups_need_enable", profile.subgroups_need_enable},
  };
  return json.dump();
}

Result<DeviceProfile> profile_from_json(std::string_view text) {
  const auto parsed = Json::parse(text);
  const auto* list = parsed ? parsed->as<Json::Array>() : nullptr;
  const Json* json = list != nullptr && list->size() == 1 ? &list->front() : parsed ? &*parsed : nullptr;
  if (json == nullptr || json->as<Json::Object>() == nullptr)
    return fail(ErrorCode::invalid_argument, "the device profile is not a JSON object");
  DeviceProfile profile;
  Limits& limits = profile.limits;
  std::string kind;
  Reader reader(*json);
  reader.take("name", profile.name);
  reader.take("driver", profile.driver);
  reader.take("backend", profile.backend);
  // Not in profiles that were made when there was one engine.
  if (json->find("engine") != nullptr) reader.take("engine", profile.engine);
  reader.take("kind", kind);
  reader.take("max_buffer_size", limits.max_buffer_size);
  reader.take("max_storage_binding_size", limits.max_storage_binding_size);
  reader.take("max_workgroups_per_dimension", limits.max_workgroups_per_dimension);
  reader.take("max_workgroup_invocations", limits.max_workgroup_invocations);
  reader.take("max_workgroup_size_x", limits.max_workgroup_size_x);
  if (json->find("max_workgroup_bytes") != nullptr) reader.take("max_workgroup_bytes", limits.max_workgroup_bytes);
  reader.take("shader_f16", profile.shader_f16);
  reader.take("subgroups", profile.subgroups);
  reader.take("packed_dot", profile.packed_dot);
  reader.take("timestamp_query", profile.timestamp_query);
  // Not in older ones, either.
  if (json->find("mapped_storage") != nullptr) reader.take("mapped_storage", profile.mapped_storage);
  if (json->find("subgroup_min") != nullptr) reader.take("subgroup_min", profile.subgroup_min);
  if (json->find("unchecked_kernels") != nullptr) reader.take("unchecked_kernels", profile.unchecked_kernels);
  reader.take("subgroup_max", profile.subgroup_max);
  reader.take("subgroups_need_enable", profile.subgroups_need_enable);
  TRY(reader.status());
  for (auto one : {AdapterKind::discrete, AdapterKind::integrated, AdapterKind::cpu, AdapterKind::unknown}) {
    if (to_string(one) != kind) continue;
    profile.kind = one;
    return profile;
  }
  return fail(ErrorCode::invalid_argument,
              "the device profile's kind is \"{}\", but it must be discrete, integrated, cpu or unknown", shown(kind));
}

}  // namespace nibble
