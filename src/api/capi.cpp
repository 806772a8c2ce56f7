#include "api/capi.hpp"

#include <memory>

#include "api/c_options.hpp"
#include "api/check_node.hpp"
#include "api/describe.hpp"
#include "api/json.hpp"
#include "api/ops_json.hpp"

using nibble::Json;
using namespace nibble::capi;  // NOLINT(google-build-using-namespace): the rest of this API

extern "C" {

const char* nibble_version(void) noexcept { return nibble::version().data(); }
const char* nibble_error(void) noexcept { return last_error.message.c_str(); }
int32_t nibble_error_code(void) noexcept { return static_cast<std::int32_t>(last_error.code); }

bool nibble_check_process(void) noexcept {
  return entry([] { return ok(nibble::gpu::check_process()); });
}

bool nibble_set_engine_library(const char* engine, const char* path) noexcept {
  return entry([&] {
    return is_there(engine, "engine") && is_there(path, "path") && ok(nibble::set_engine_library(engine, path));
  });
}

bool nibble_set_wgpu_functions(const char* const* names, void* const* addresses, size_t count) noexcept {
  return entry([&] {
    if (count != 0 && (!is_there(names, "names") || !is_there(addresses, "addresses"))) return false;
    std::vector<std::pair<std::string, void*>> functions;
    for (size_t i = 0; i < count; ++i) {
      if (!is_there(names[i], "name")) return false;
      functions.emplace_back(names[i], addresses[i]);
    }
    nibble::set_dawn_functions(std::move(functions));
    return true;
  });
}

void nibble_set_wgpu_provider(void (*provide)(void)) noexcept { nibble::set_dawn_provider(provide); }

void nibble_set_stop_check(bool (*check)(void)) noexcept { nibble::set_stop_check(check); }

const char* nibble_devices_json(const char* engine) noexcept {
  return entry([&]() -> const char* {
    thread_local std::string text;
    auto devices = nibble::devices(engine != nullptr ? engine : "");
    if (!devices) return failed(std::move(devices).error());
    Json json = Json::array();
    for (const auto& info : *devices) {
      auto one = nibble::to_json(info);
      if (!one) return failed(std::move(one).error());
      json.push_back(std::move(*one));
    }
    text = json.dump();
    return text.c_str();
  });
}

const char* nibble_ops_json(void) noexcept {
  return entry([&]() -> const char* {
    static const std::string kText = nibble::ops_json().dump();
    return kText.c_str();
  });
}

bool nibble_check_node(const char* node) noexcept {
  return entry([&]() -> bool { return is_there(node, "node") && ok(nibble::check_node(node)); });
}

nibble_device* nibble_device_open(const char* selector, const char* engine) noexcept {
  return entry([&]() -> nibble_device* {
    auto device = nibble::Device::open(selector != nullptr ? selector : "", engine != nullptr ? engine : "");
    if (!device) return failed(std::move(device).error());
    auto json = nibble::to_json(device->info());
    if (!json) return failed(std::move(json).error());
    return new nibble_device{*device, json->dump()};
  });
}

const char* nibble_device_json(nibble_device* device) noexcept {
  return entry([&]() -> const char* { return is_there(device, "device") ? device->json.c_str() : nullptr; });
}

bool nibble_device_has_failed(nibble_device* device) noexcept {
  return entry([&]() -> bool { return is_there(device, "device") && device->device.lost().has_value(); });
}

uint64_t nibble_device_live_objects(nibble_device* device) noexcept {
  return entry([&]() -> uint64_t { return is_there(device, "device") ? device->device.live_objects() : 0; });
}

uint64_t nibble_device_compiled_pipelines(nibble_device* device) noexcept {
  return entry([&]() -> uint64_t { return is_there(device, "device") ? device->device.compiled_pipelines() : 0; });
}

nibble_trace* nibble_device_start_trace(nibble_device* device) noexcept {
  return entry([&]() -> nibble_trace* {
    if (!is_usable(device, "device")) return nullptr;
    auto trace = std::make_unique<nibble_trace>(device->device);
    if (!ok(trace->device.start_trace())) return nullptr;
    trace->is_on = true;
    return trace.release();
  });
}

void nibble_device_free(nibble_device* device) noexcept { discard(device); }

const char* nibble_trace_stop(nibble_trace* trace) noexcept {
  return entry([&]() -> const char* {
    if (!is_usable(trace, "trace")) return nullptr;
    if (!trace->is_on.exchange(false)) {
      return failed({nibble::ErrorCode::invalid_argument, "this trace has ended already"});
    }
    auto events = trace->device.stop_trace();
    if (!events) return failed(std::move(events).error());
    auto json = nibble::chrome_trace(*events);
    if (!json) return failed(std::move(json).error());
    trace->json = std::move(*json);
    return trace->json.c_str();
  });
}

void nibble_trace_free(nibble_trace* trace) noexcept { discard(trace); }

}  // extern "C"

namespace {

void set_progress(std::function<void(std::uint64_t, std::uint64_t)>& to, nibble_progress progress, void* user) {
  if (progress == nullptr) return;
  to = [progress, user](std::uint64_t done, std::uint64_t total) { progress(done, total, user); };
}

/// Of LoadOptions or TuneOptions; false with the error.
template <class Taken>
bool take_given(const nibble_load_options* given, Taken& to) {
  if (given == nullptr) return true;
  auto taken = nibble::options_from_c(*given);
  if (!taken) {
    failed(std::move(taken).error());
    return false;
  }
  static_cast<nibble::Options&>(to) = std::move(*taken);
  set_progress(to.on_progress, given->progress, given->user);
  return true;
}

}  // namespace

extern "C" {

nibble_model* nibble_model_load(nibble_device* device, const char* path, const nibble_load_options* given) noexcept {
  return entry([&]() -> nibble_model* {
    if (!is_there(device, "device") || !is_there(path, "path")) return nullptr;
    nibble::LoadOptions options;
    if (!take_given(given, options)) return nullptr;
    if (given != nullptr) set_progress(options.on_tuning, given->tuning_progress, given->user);
    auto model = nibble::Model::load(device->device, path, options);
    if (!model) return failed(std::move(model).error());
    return new nibble_model{
        *model, nibble::to_json(model->constant_methods()).dump(), Json(model->notes()).dump(), {}, {}, {}};
  });
}

const char* nibble_tune_json(nibble_device* device, const char* path, const nibble_load_options* given,
                             const char* output) noexcept {
  return entry([&]() -> const char* {
    thread_local std::string text;
    nibble::TuneOptions options;
    if (!is_there(device, "device") || !is_there(path, "path") || !take_given(given, options)) return nullptr;
    if (output != nullptr) options.output = output;
    auto tuning = nibble::tune(device->device, path, options);
    if (!tuning) return failed(std::move(tuning).error());
    text = std::move(*tuning);
    return text.c_str();
  });
}

const char* nibble_model_notes_json(nibble_model* model) noexcept {
  return entry([&]() -> const char* { return is_there(model, "model") ? model->notes.c_str() : nullptr; });
}

size_t nibble_model_input_count(nibble_model* model) noexcept {
  return entry([&]() -> size_t { return is_there(model, "model") ? model->model.inputs().size() : 0; });
}

size_t nibble_model_output_count(nibble_model* model) noexcept {
  return entry([&]() -> size_t { return is_there(model, "model") ? model->model.outputs().size() : 0; });
}

bool nibble_model_input(nibble_model* model, size_t index, nibble_tensor* out) noexcept {
  return entry(
      [&]() -> bool { return is_there(model, "model") && describe(model->model.inputs(), index, "input", out); });
}

bool nibble_model_output(nibble_model* model, size_t index, nibble_tensor* out) noexcept {
  return entry(
      [&]() -> bool { return is_there(model, "model") && describe(model->model.outputs(), index, "output", out); });
}

const char* nibble_model_constants_json(nibble_model* model) noexcept {
  return entry([&]() -> const char* { return is_there(model, "model") ? model->constants.c_str() : nullptr; });
}

void nibble_model_free(nibble_model* model) noexcept { discard(model); }

bool nibble_model_run(nibble_model* model, const nibble_tensor* inputs, size_t input_count, nibble_tensor* outputs,
                      size_t output_count) noexcept {
  return in_turn(model, "model", [&]() -> bool {
    if (!check_outputs(model->model, outputs, output_count) ||
        !read_inputs(model->model, inputs, input_count, model->inputs)) {
      return false;
    }
    auto results = model->model.run(model->inputs);
    if (!results) {
      failed(std::move(results).error());
      return false;
    }
    model->results = std::move(*results);
    for (std::size_t i = 0; i < output_count; ++i) {
      const auto& result = model->results[i];
      describe(model->model.outputs(), i, "output", &outputs[i]);
      outputs[i].integer = result.integer;
      outputs[i].data = result.data.get();
      outputs[i].bytes = result.bytes;
      write_shape(result.shape, outputs[i]);
    }
    return true;
  });
}

void nibble_model_cancel(nibble_model* model) noexcept {
  if (model != nullptr) model->model.cancel();
}

nibble_session* nibble_model_session(nibble_model* model) noexcept {
  return entry([&]() -> nibble_session* {
    if (!is_there(model, "model")) return nullptr;
    auto session = model->model.session();
    if (!session) return failed(std::move(session).error());
    return new nibble_session{model->model, *session, {}, {}, {}, {}};
  });
}

}  // extern "C"
