/* Text generation in C: tokens from a language model, one after the other, and their bytes as text. As in nibble.h,
 * functions that can fail return NULL, false or -1; nibble_error() then gives the sentence. */
#ifndef NIBBLE_GENERATE_H
#define NIBBLE_GENERATE_H

#include "nibble/nibble.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nibble_generator nibble_generator;
typedef struct nibble_text nibble_text;

typedef struct {
  int32_t id;
  double logprob;
} nibble_logprob;

typedef struct {
  int32_t id;
  double logprob;            /* if the settings ask for it */
  const nibble_logprob* top; /* valid until the generator's next call */
  size_t top_count;
} nibble_token;

/* A generator with a session of its own. The model and the device may be freed before it. One call at a time: a second
 * thread that comes in gets an error. See nibble/generate.hpp for what each function does. */
NIBBLE_EXPORT nibble_generator* nibble_generator_make(nibble_model* model) NIBBLE_NOEXCEPT;
/* {"vocabulary", "context_length", "chunk", "model_bytes", "session_bytes"} */
NIBBLE_EXPORT const char* nibble_generator_json(nibble_generator* generator) NIBBLE_NOEXCEPT;
/* `settings` is a JSON object of the names of nibble::GenerateOptions; `logit_bias` is a list of [token, bias]. */
NIBBLE_EXPORT bool nibble_generator_start(nibble_generator* generator, const int32_t* prompt, size_t count,
                                          const char* settings) NIBBLE_NOEXCEPT;
/* 1: a chunk of the prompt was computed; 0: what is left of it is for nibble_generator_next(); -1: an error. */
NIBBLE_EXPORT int32_t nibble_generator_prefill(nibble_generator* generator) NIBBLE_NOEXCEPT;
/* 1: a token; 0: the end; -1: an error. `allowed`: bit i % 32 of word i / 32 says whether token i may come; no words:
 * all may. */
NIBBLE_EXPORT int32_t nibble_generator_next(nibble_generator* generator, const uint32_t* allowed, size_t words,
                                            nibble_token* token) NIBBLE_NOEXCEPT;
/* Figures of the generation so far, by the names of nibble::GenerateStats and: "time_to_first_token_ms",
 * "prompt_tokens_per_second", "generated_tokens_per_second", "finish_reason" ("stop", "length", "cancelled" or null).
 * What ExecuTorch's own statistics have is there by its name, so these two rates twice. */
NIBBLE_EXPORT const char* nibble_generator_stats_json(nibble_generator* generator) NIBBLE_NOEXCEPT;
/* How many tokens the session has computed, or -1; the first `room` of them are written. */
NIBBLE_EXPORT int64_t nibble_generator_tokens(nibble_generator* generator, int32_t* tokens,
                                              size_t room) NIBBLE_NOEXCEPT;
/* Ends the generation for what its text says, such as a stop string. */
NIBBLE_EXPORT bool nibble_generator_stop(nibble_generator* generator) NIBBLE_NOEXCEPT;
/* For any thread. */
NIBBLE_EXPORT void nibble_generator_cancel(nibble_generator* generator) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT bool nibble_generator_rewind(nibble_generator* generator, int64_t count) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT nibble_generator* nibble_generator_fork(nibble_generator* generator) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT bool nibble_generator_save(nibble_generator* generator, const char* path) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT bool nibble_generator_restore(nibble_generator* generator, const char* path) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT void nibble_generator_free(nibble_generator* generator) NIBBLE_NOEXCEPT;

/* Bytes of tokens to text: hands out whole UTF-8 characters, and nothing of a stop string or of what may become one.
 * The stop strings have `lengths` bytes. */
NIBBLE_EXPORT nibble_text* nibble_text_make(const char* const* stops, const size_t* lengths,
                                            size_t count) NIBBLE_NOEXCEPT;
/* What can be handed out now, `length` bytes; valid until the next call. */
NIBBLE_EXPORT const char* nibble_text_push(nibble_text* text, const char* bytes, size_t count,
                                           size_t* length) NIBBLE_NOEXCEPT;
/* The rest, when no more tokens come. */
NIBBLE_EXPORT const char* nibble_text_finish(nibble_text* text, size_t* length) NIBBLE_NOEXCEPT;
/* Which stop string ended the text, or -1. */
NIBBLE_EXPORT int64_t nibble_text_stop(nibble_text* text) NIBBLE_NOEXCEPT;
NIBBLE_EXPORT void nibble_text_free(nibble_text* text) NIBBLE_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
