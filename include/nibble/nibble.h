/* Nibble's C API, which the Python package uses. Nothing here throws, or aborts on bad input.
 *
 * Functions that can fail return NULL or false; nibble_error() then gives the sentence, for the calling thread.
 * Strings that are returned stay valid until the next call on the same object (or thread, for nibble_error). */
#ifndef NIBBLE_NIBBLE_H
#define NIBBLE_NIBBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nibble/options.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NIBBLE_EXPORT __attribute__((visibility("default")))
#else
#define NIBBLE_EXPORT
#endif

#ifdef __cplusplus
#define NIBBLE_NOEXCEPT noexcept
#else
#define NIBBLE_NOEXCEPT
#endif

#define NIBBLE_MAX_RANK 8

/* The numbers of nibble::DType. */
typedef enum {
  NIBBLE_BOOL = 0,
  NIBBLE_UINT8 = 1,
  NIBBLE_INT8 = 2,
  NIBBLE_INT32 = 3,
  NIBBLE_FLOAT16 = 4,
  NIBBLE_FLOAT32 = 5,
  NIBBLE_FLOAT64 = 6,
  NIBBLE_INT64 = 7
} nibble_dtype;

typedef struct {
  int32_t dtype;
  int32_t is_int; /* a plain integer: only `integer`, or `word`, is used */
  int64_t integer;
  uint32_t rank;
  int64_t shape[NIBBLE_MAX_RANK];
  void* data;     /* inputs: read only */
  uint64_t bytes; /* how many may be read or written at data */
  /* Inputs: set this when the input cannot be expressed (an unknown element type, or an integer beyond int64). The
   * error then quotes it. Otherwise null. */
  const char* word;
} nibble_tensor;

typedef struct nibble_device nibble_device;
typedef struct nibble_trace nibble_trace;
typedef struct nibble_model nibble_model;
typedef struct nibble_session nibble_session;

NIBBLE_EXPORT const char* nibble_version(void) NIBBLE_NOEXCEPT;
/* The calling thread's last error sentence, or "". */
NIBBLE_EXPORT const char* nibble_error(void) NIBBLE_NOEXCEPT;
/* Its code: the number of nibble::ErrorCode. */
NIBBLE_EXPORT int32_t nibble_error_code(void) NIBBLE_NOEXCEPT;

/* False, with the error, in a child that was forked after the GPU was used. There every call that uses the GPU or
 * changes an object fails in the same way, and frees do nothing. It takes no lock, so call it before taking one that
 * another thread may have held at the fork. */
NIBBLE_EXPORT bool nibble_check_process(void) NIBBLE_NOEXCEPT;

/* Sets the path of an engine's library ("wgpu", "dawn"), instead of searching for it. Call it before the first device
 * is listed or opened. */
NIBBLE_EXPORT bool nibble_set_engine_library(const char* engine, const char* path) NIBBLE_NOEXCEPT;
/* Hands over the functions of a Dawn that this process has: their names in webgpu.h, and their addresses. */
NIBBLE_EXPORT bool nibble_set_wgpu_functions(const char* const* names, void* const* addresses,
                                             size_t count) NIBBLE_NOEXCEPT;

/* `provide` is called when Dawn is first needed, to hand its functions over then and not before. */
NIBBLE_EXPORT void nibble_set_wgpu_provider(void (*provide)(void)) NIBBLE_NOEXCEPT;

/* `check` is asked on this thread, between the submissions of its calls and loads, and while a large program is
 * planned: true ends them with the code "cancelled". It may cancel the session whose call asks, but not use it. Null
 * for none. */
NIBBLE_EXPORT void nibble_set_stop_check(bool (*check)(void)) NIBBLE_NOEXCEPT;

/* All adapters as a JSON list. Valid until the thread's next call of this function. `engine`: "dawn", "wgpu", or null
 * for $NIBBLE_ENGINE or all. */
NIBBLE_EXPORT const char* nibble_devices_json(const char* engine) NIBBLE_NOEXCEPT;

/* All ops as a JSON list of {"name", "family", "arguments", "notes"}; an argument is {"name", "role", "optional",
 * "ignored", "output"}. Needs no device, like the next one. */
NIBBLE_EXPORT const char* nibble_ops_json(void) NIBBLE_NOEXCEPT;
/* Whether a node can be planned, with its types and shapes: {"op": name, "arguments": [...], "out": value} in JSON. A
 * tensor is {"dtype", "shape", "constant", "fixed"}, with its largest shape; "constant" and "fixed" (its shape is the
 * same in every call) may be left out. A SymInt is {}. Everything else is written as what it is. */
NIBBLE_EXPORT bool nibble_check_node(const char* node) NIBBLE_NOEXCEPT;

/* `selector`: an index, a kind, a part of a name, or null for $NIBBLE_DEVICE or the best; `engine` as above. */
NIBBLE_EXPORT nibble_device* nibble_device_open(const char* selector, const char* engine) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT const char* nibble_device_json(nibble_device* device) NIBBLE_NOEXCEPT;
/// Whether the device was lost, or an operation failed outside any call: every later call fails, and the device must be
/// opened again.
NIBBLE_EXPORT bool nibble_device_has_failed(nibble_device* device) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT uint64_t nibble_device_live_objects(nibble_device* device) NIBBLE_NOEXCEPT;
/* How many pipelines the device has compiled so far. Calls never compile. */
NIBBLE_EXPORT uint64_t nibble_device_compiled_pipelines(nibble_device* device) NIBBLE_NOEXCEPT;
/* Records what loads and calls on the device do, until the trace is stopped or freed. See nibble.hpp. */
NIBBLE_EXPORT nibble_trace* nibble_device_start_trace(nibble_device* device) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT void nibble_device_free(nibble_device* device) NIBBLE_NOEXCEPT;

/* Ends the trace and gives it in the format that chrome://tracing and Perfetto read: JSON, valid until the trace is
 * freed. An error if it has ended already. */
NIBBLE_EXPORT const char* nibble_trace_stop(nibble_trace* trace) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT void nibble_trace_free(nibble_trace* trace) NIBBLE_NOEXCEPT;

/* `options` may be null. */
NIBBLE_EXPORT nibble_model* nibble_model_load(nibble_device* device, const char* path,
                                              const nibble_load_options* options) NIBBLE_NOEXCEPT;
/* Measures which kernel variants are the fastest for a program, and gives the tuning as JSON. It is added to the file
 * `output`, or kept for this user if that is null. `options` may be null; its progress gets how many cases are done,
 * and how many there are. */
NIBBLE_EXPORT const char* nibble_tune_json(nibble_device* device, const char* path, const nibble_load_options* options,
                                           const char* output) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT size_t nibble_model_input_count(nibble_model* model) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT size_t nibble_model_output_count(nibble_model* model) NIBBLE_NOEXCEPT;
/* Fills in dtype, is_int, rank and shape (the largest one). */
NIBBLE_EXPORT bool nibble_model_input(nibble_model* model, size_t index, nibble_tensor* out) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT bool nibble_model_output(nibble_model* model, size_t index, nibble_tensor* out) NIBBLE_NOEXCEPT;
/* A JSON list of sentences: what there is to say about the load, such as that a tuning is for another device. */
NIBBLE_EXPORT const char* nibble_model_notes_json(nibble_model* model) NIBBLE_NOEXCEPT;
/* Constant methods as a JSON object: name to value, or to a list if a method returns several. */
NIBBLE_EXPORT const char* nibble_model_constants_json(nibble_model* model) NIBBLE_NOEXCEPT;
/* Runs the program in the model's own session. `outputs` has one entry per output of the program. Fills in dtype, shape
 * and data, or is_int and integer. The model owns the data, which is valid until its next run. Make one call at a time.
 */
NIBBLE_EXPORT bool nibble_model_run(nibble_model* model, const nibble_tensor* inputs, size_t input_count,
                                    nibble_tensor* outputs, size_t output_count) NIBBLE_NOEXCEPT;
/* As nibble_session_cancel, for nibble_model_run. */
NIBBLE_EXPORT void nibble_model_cancel(nibble_model* model) NIBBLE_NOEXCEPT;
/* A further session, with its own state. The model and the device may be freed before it. */
NIBBLE_EXPORT nibble_session* nibble_model_session(nibble_model* model) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT void nibble_model_free(nibble_model* model) NIBBLE_NOEXCEPT;

/* One call at a time: a second thread that comes in gets an error. Different sessions may run on different threads. */
NIBBLE_EXPORT bool nibble_session_set_inputs(nibble_session* session, const nibble_tensor* inputs,
                                             size_t count) NIBBLE_NOEXCEPT;
/* After set_inputs: the live shape, or the integer. */
NIBBLE_EXPORT bool nibble_session_output(nibble_session* session, size_t index, nibble_tensor* out) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT bool nibble_session_execute(nibble_session* session, const nibble_tensor* outputs,
                                          size_t count) NIBBLE_NOEXCEPT;
/* nibble_session_execute in two halves: submit returns while the GPU works, wait writes the outputs. Their data (not
 * the list) must stay until wait returns or the session is freed. In between only wait, cancel, output, states_json and
 * free are allowed; others give an error. Any thread may wait. */
NIBBLE_EXPORT bool nibble_session_submit(nibble_session* session, const nibble_tensor* outputs,
                                         size_t count) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT bool nibble_session_wait(nibble_session* session) NIBBLE_NOEXCEPT;
/* Lets the call that is under way, from set_inputs to the end of execute or wait, fail with the code "cancelled" as
 * soon as what the GPU works on is done; without a call it does nothing. For any thread. See nibble.hpp for what a
 * state is then. */
NIBBLE_EXPORT void nibble_session_cancel(nibble_session* session) NIBBLE_NOEXCEPT;
/* The tensors that the session keeps from call to call, as a JSON list of {"role", "dtype", "shape", "row_axis",
 * "rows"}. "role" is the tensor's argument name in the op that changes it, "row_axis" is the dimension that calls fill
 * from the front (or null), and "rows" is how many of these rows are in use after the last call. Valid until the
 * session's next call of this function. */
NIBBLE_EXPORT const char* nibble_session_states_json(nibble_session* session) NIBBLE_NOEXCEPT;
/* See nibble.hpp for these. None is possible while a call is in flight. */
NIBBLE_EXPORT bool nibble_session_rewind(nibble_session* session, int64_t rows) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT bool nibble_session_reset(nibble_session* session) NIBBLE_NOEXCEPT;
/* A further session, whose state equals this one's. */
NIBBLE_EXPORT nibble_session* nibble_session_fork(nibble_session* session) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT bool nibble_session_save(nibble_session* session, const char* path) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT bool nibble_session_restore(nibble_session* session, const char* path) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT void nibble_session_free(nibble_session* session) NIBBLE_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
