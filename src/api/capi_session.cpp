// The C API of sessions.
#include "api/capi.hpp"
#include "api/describe.hpp"
#include "api/json.hpp"

using nibble::Json;
using namespace nibble::capi;  // NOLINT(google-build-using-namespace): the rest of this API

extern "C" {

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
    return read_outputs(session->model, outputs, count, session->outputs) &&
           ok(session->session.execute(session->outputs));
  });
}

bool nibble_session_submit(nibble_session* session, const nibble_tensor* outputs, size_t count) noexcept {
  return in_turn(session, "session", [&]() -> bool {
    return read_outputs(session->model, outputs, count, session->outputs) &&
           ok(session->session.submit(session->outputs));
  });
}

bool nibble_session_wait(nibble_session* session) noexcept {
  return in_turn(session, "session", [&]() -> bool { return ok(session->session.wait()); });
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

bool nibble_session_rewind(nibble_session* session, int64_t rows) noexcept {
  return in_turn(session, "session", [&]() -> bool { return ok(session->session.rewind(rows)); });
}

bool nibble_session_reset(nibble_session* session) noexcept {
  return in_turn(session, "session", [&]() -> bool { return ok(session->session.reset()); });
}

nibble_session* nibble_session_fork(nibble_session* session) noexcept {
  return in_turn(session, "session", [&]() -> nibble_session* {
    auto forked = session->session.fork();
    if (!forked) return failed(std::move(forked).error());
    return new nibble_session{session->model, *forked, {}, {}, {}, {}};
  });
}

bool nibble_session_save(nibble_session* session, const char* path) noexcept {
  return in_turn(session, "session",
                 [&]() -> bool { return is_there(path, "path") && ok(session->session.save(path)); });
}

bool nibble_session_restore(nibble_session* session, const char* path) noexcept {
  return in_turn(session, "session",
                 [&]() -> bool { return is_there(path, "path") && ok(session->session.restore(path)); });
}

void nibble_session_free(nibble_session* session) noexcept { discard(session); }

}  // extern "C"
