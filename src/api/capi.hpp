// What the files of the C API share: its handles, the calling thread's last error, and how its functions begin.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "api/session.hpp"
#include "gpu/process.hpp"
#include "graph/guarded.hpp"
#include "nibble/nibble.h"
#include "nibble/nibble.hpp"

struct nibble_device {
  nibble::Device device;
  std::string json;
};
struct nibble_trace {
  explicit nibble_trace(const nibble::Device& traced) : device(traced) {}
  nibble_trace(const nibble_trace&) = delete;
  nibble_trace& operator=(const nibble_trace&) = delete;
  ~nibble_trace() {
    if (is_on) (void)device.stop_trace();
  }

  nibble::Device device;
  std::atomic<bool> is_on = false;
  std::string json;
};
struct nibble_model {
  nibble::Model model;
  std::string constants;
  std::string notes;
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

namespace nibble::capi {

/// The calling thread's.
inline thread_local Error last_error{ErrorCode::internal, ""};

inline std::nullptr_t failed(Error error) {
  last_error = std::move(error);
  return nullptr;
}

inline bool ok(Status status) {
  const bool is_done = status.has_value();
  if (!is_done) last_error = std::move(status).error();
  return is_done;
}

/// Runs the body of a function of this API. Without memory, it gives what a failure gives: null, false or 0. Nothing
/// else is thrown.
template <class Call>
// NOLINTNEXTLINE(bugprone-exception-escape)
auto entry(const Call& call) noexcept -> decltype(call()) {
  return guarded(call, []() -> decltype(call()) {
    last_error = no_memory();
    return {};
  });
}

/// In a forked child nothing is freed.
template <class T>
void discard(T* object) {
  if (!gpu::is_forked()) delete object;
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
  return ok(gpu::check_process()) && is_there(pointer, what);
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

/// Reads the inputs of a call into `to`, which is kept for that; false with the error.
bool read_inputs(const Model& model, const nibble_tensor* inputs, std::size_t count, std::vector<HostTensor>& to);
/// The same for outputs.
bool read_outputs(const Model& model, const nibble_tensor* outputs, std::size_t count, std::vector<HostOutput>& to);
bool check_outputs(const Model& model, const nibble_tensor* outputs, std::size_t count);
void write_shape(const Shape& shape, nibble_tensor& to);
/// Fills in dtype, is_int and the largest shape.
bool describe(const std::vector<TensorInfo>& all, std::size_t index, std::string_view what, nibble_tensor* out);

}  // namespace nibble::capi
