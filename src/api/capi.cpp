#include <algorithm>
#include <array>
#include <new>

#include "api/c_options.hpp"
#include "api/check_node.hpp"
#include "api/json.hpp"
#include "api/ops_json.hpp"
#include "api/session.hpp"
#include "api/states.hpp"
#include "boundary/boundary.hpp"
#include "gpu/process.hpp"
#include "graph/guarded.hpp"
#include "nibble/nibble.h"
#include "nibble/nibble.hpp"

using nibble::Error;
using nibble::ErrorCode;
using nibble::Json;
using nibble::Result;
using nibble::Status;

struct nibble_device {
  nibble::Device device;
  std::string json;
};
struct nibble_model {
  nibble::Model model;
  std::string constants;
  std::vector<nibble::HostTensor> inputs;
  std::vector<nibble::HostArray> results;
  nibble::Turns turns;  ///< for calls that use these lists
};
struct nibble_session {
  nibble::Model model;
  nibble::Session session;
  std::vector<nibble::HostTensor> inputs;
  std::vector<nibble::HostOutput> outputs;
  std::string states;
  nibble::Turns turns;  ///< for calls that use these lists
};

namespace {

thread_local Error last_error{ErrorCode::internal, ""};

std::nullptr_t failed(Error error) {
  last_error = std::move(error);
  return nullptr;
}

bool ok(Status status) {
  const bool is_done = status.has_value();
  if (!is_done) last_error = std::move(status).error();
  return is_done;
}

/// Runs the body of a function of this API. Without memory, it gives what a failure gives: null, false or 0. Nothing
/// else is thrown.
template <class Call>
// NOLINTNEXTLINE(bugprone-exception-escape)
auto entry(const Call& call) noexcept -> decltype(call()) {
  return nibble::guarded(call, []() -> decltype(call()) {
    last_error = nibble::no_memory();
    return {};
  });
}

/// In a forked child nothing is freed.
template <class T>
void discard(T* object) {
  if (!nibble::gpu::is_forked()) delete object;
}

/// A null handle is an error, not a crash.
template <class T>
bool is_there(const T* pointer, const char* what) {
  if (pointer == nullptr) failed({ErrorCode::invalid_argument, fmt::format("the {} is null", what)});
  return pointer != nullptr;
}

/// For calls that change or read what another thread may have been changing at a fork.
template <class T>
bool is_usable(const T* pointer, const char* what) {
  return ok(nibble::gpu::check_process()) && is_there(pointer, what);
}

/// entry() for calls of a session, of which one at a time is let in. A model's calls are those of its own session.
template <class T, class Call>
auto in_turn(T* object, const char* what, const Call& call) noexcept -> decltype(call()) {
  return entry([&]() -> decltype(call()) {
    if (!is_usable(object, what)) return {};
    auto turn = object->turns.take();
    if (turn) return call();
    failed(std::move(turn).error());
    return {};
  });
}

Result<nibble::DType> dtype_of(const nibble_tensor& tensor, std::string_view what, std::size_t index) {
  if (tensor.dtype < NIBBLE_BOOL || tensor.dtype > NIBBLE_INT64) {
    return nibble::fail(ErrorCode::invalid_argument, "{} {} has the unknown dtype number {}", what, index,
                        tensor.dtype);
  }
  return static_cast<nibble::DType>(tensor.dtype);
}

Status read_input(const nibble_tensor& from, std::size_t index, nibble::HostTensor& to) {
  to = {};
  to.is_int = from.is_int != 0;
  to.integer = from.integer;
  if (from.word != nullptr) to.word = from.word;
  if (to.is_int) return {};
  if (to.word.empty()) {
    TRY_ASSIGN(to.dtype, dtype_of(from, "input", index));
  }
  if (from.rank > NIBBLE_MAX_RANK) {
    return std::unexpected(nibble::too_many_dimensions(fmt::format("input {}", index), from.rank));
  }
  for (std::uint32_t i = 0; i < from.rank; ++i) to.shape.push_back(from.shape[i]);
  to.data = from.data;
  // A shape that is no shape is the boundary's to refuse.
  const auto bytes = to.word.empty() ? nibble::Size::bytes(to.shape, to.dtype) : nibble::Size(0);
  if (to.data != nullptr && bytes.valid() && !bytes.fits(from.bytes)) {
    return nibble::fail(ErrorCode::invalid_argument, "input {} has shape {} and takes {} bytes as {}, but {} are given",
                        index, to.shape, bytes.unchecked(), to.dtype, from.bytes);
  }
  return {};
}

bool read_inputs(const nibble::Model& model, const nibble_tensor* inputs, std::size_t count,
                 std::vector<nibble::HostTensor>& to) {
  if (count != 0 && !is_there(inputs, "list of inputs")) return false;
  // Check the count before reading any input: there may be fewer than `count` says.
  if (const auto wanted = model.inputs().size(); count != wanted) {
    failed(nibble::wrong_input_count(count, wanted));
    return false;
  }
  to.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!ok(read_input(inputs[i], i, to[i]))) return false;
  }
  return true;
}

bool check_outputs(const nibble::Model& model, const nibble_tensor* outputs, std::size_t count) {
  if (count != 0 && !is_there(outputs, "list of outputs")) return false;
  if (const auto wanted = model.outputs().size(); count != wanted) {
    failed(nibble::wrong_output_count(count, wanted));
    return false;
  }
  return true;
}

void write_shape(const nibble::Shape& shape, nibble_tensor& to) {
  to.rank = static_cast<std::uint32_t>(shape.rank());
  std::ranges::copy(shape.dims(), to.shape);
}

bool describe(const std::vector<nibble::TensorInfo>& all, std::size_t index, std::string_view what,
              nibble_tensor* out) {
  if (!is_there(out, "place for the answer")) return false;
  if (index >= all.size()) {
    failed(
        {ErrorCode::invalid_argument, fmt::format("there is no {} {}: the program has {}", what, index, all.size())});
    return false;
  }
  *out = {};
  out->dtype = static_cast<std::int32_t>(all[index].dtype);
  out->is_int = all[index].is_int ? 1 : 0;
  write_shape(all[index].shape, *out);
  return true;
}

}  // namespace

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

uint64_t nibble_device_live_objects(nibble_device* device) noexcept {
  return entry([&]() -> uint64_t { return is_there(device, "device") ? device->device.live_objects() : 0; });
}

uint64_t nibble_device_compiled_pipelines(nibble_device* device) noexcept {
  return entry([&]() -> uint64_t { return is_there(device, "device") ? device->device.compiled_pipelines() : 0; });
}

void nibble_device_free(nibble_device* device) noexcept { discard(device); }

nibble_model* nibble_model_load(nibble_device* device, const char* path, const nibble_load_options* given) noexcept {
  return entry([&]() -> nibble_model* {
    if (!is_there(device, "device") || !is_there(path, "path")) return nullptr;
    nibble::LoadOptions options;
    if (given != nullptr) {
      auto taken = nibble::options_from_c(*given);
      if (!taken) return failed(std::move(taken).error());
      static_cast<nibble::Options&>(options) = std::move(*taken);
      if (const auto progress = given->progress; progress != nullptr) {
        options.on_progress = [progress, user = given->user](std::uint64_t done, std::uint64_t total) {
          progress(done, total, user);
        };
      }
    }
    auto model = nibble::Model::load(device->device, path, options);
    if (!model) return failed(std::move(model).error());
    return new nibble_model{*model, nibble::to_json(model->constant_methods()).dump(), {}, {}, {}};
  });
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

bool nibble_session_set_inputs(nibble_session* session, const nibble_tensor* inputs, size_t count) noexcept {
  return in_turn(session, "session", [&]() -> bool {
    return read_inputs(session->model, inputs, count, session->inputs) &&
           ok(session->session.set_inputs(session->inputs));
  });
}

bool nibble_session_output(nibble_session* session, size_t index, nibble_tensor* out) noexcept {
  return in_turn(session, "session", [&]() -> bool {
    if (!describe(session->model.outputs(), index, "output", out)) return false;
    if (out->is_int != 0) {
      out->integer = session->session.output_int(index);
    } else {
      write_shape(session->session.output_shape(index), *out);
    }
    return true;
  });
}

bool nibble_session_execute(nibble_session* session, const nibble_tensor* outputs, size_t count) noexcept {
  return in_turn(session, "session", [&]() -> bool {
    if (!check_outputs(session->model, outputs, count)) return false;
    session->outputs.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      auto dtype = dtype_of(outputs[i], "output", i);
      if (!dtype) {
        failed(std::move(dtype).error());
        return false;
      }
      session->outputs[i] = {*dtype, outputs[i].data, outputs[i].bytes};
    }
    return ok(session->session.execute(session->outputs));
  });
}

void nibble_session_cancel(nibble_session* session) noexcept {
  if (session != nullptr) session->session.cancel();
}

const char* nibble_session_states_json(nibble_session* session) noexcept {
  return in_turn(session, "session", [&]() -> const char* {
    auto states = session->session.states();
    if (!states) return failed(std::move(states).error());
    Json json = Json::array();
    for (const auto& state : *states) json.push_back(nibble::to_json(state));
    session->states = json.dump();
    return session->states.c_str();
  });
}

void nibble_session_free(nibble_session* session) noexcept { discard(session); }

}  // extern "C"
