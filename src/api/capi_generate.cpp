// The C API of text generation.
#include <algorithm>

#include "api/capi.hpp"
#include "api/generate_json.hpp"
#include "generate/text_stream.hpp"
#include "nibble/generate.h"
#include "nibble/generate.hpp"

using nibble::capi::discard;
using nibble::capi::entry;
using nibble::capi::failed;
using nibble::capi::in_turn;
using nibble::capi::is_there;
using nibble::capi::is_usable;
using nibble::capi::ok;

struct nibble_generator {
  nibble::Generator generator;
  std::string json;
  std::vector<nibble_logprob> top;
  nibble::Turns turns;  ///< for calls that use these
};

struct nibble_text {
  nibble::generate::TextStream stream;
};

nibble_generator* nibble_generator_make(nibble_model* model) noexcept {
  return entry([&]() -> nibble_generator* {
    if (!is_usable(model, "model")) return nullptr;
    auto generator = nibble::Generator::make(model->model);
    if (!generator) return failed(std::move(generator).error());
    return new nibble_generator{*generator, {}, {}, {}};
  });
}

const char* nibble_generator_json(nibble_generator* generator) noexcept {
  return in_turn(generator, "generator", [&]() -> const char* {
    generator->json = nibble::to_json(generator->generator.info()).dump();
    return generator->json.c_str();
  });
}

bool nibble_generator_start(nibble_generator* generator, const int32_t* prompt, size_t count,
                            const char* options) noexcept {
  return in_turn(generator, "generator", [&] {
    if (!is_there(options, "settings") || (count != 0 && !is_there(prompt, "prompt"))) return false;
    auto read = nibble::generate_options(options);
    if (!read) {
      failed(std::move(read).error());
      return false;
    }
    return ok(generator->generator.start({prompt, count}, *read));
  });
}

int32_t nibble_generator_prefill(nibble_generator* generator) noexcept {
  // Without memory the answer would be 0: so it is one more than it says, here and in what follows.
  const int32_t answer = in_turn(generator, "generator", [&]() -> int32_t {
    auto is_some = generator->generator.prefill();
    if (is_some) return *is_some ? 2 : 1;
    failed(std::move(is_some).error());
    return 0;
  });
  return answer - 1;
}

int32_t nibble_generator_next(nibble_generator* generator, const uint32_t* allowed, size_t words,
                              nibble_token* token) noexcept {
  const int32_t answer = in_turn(generator, "generator", [&]() -> int32_t {
    if (!is_there(token, "token") || (words != 0 && !is_there(allowed, "list of allowed tokens"))) return 0;
    auto next = generator->generator.next({allowed, words});
    if (!next) {
      failed(std::move(next).error());
      return 0;
    }
    if (!*next) return 1;
    generator->top.clear();
    for (const auto& one : (*next)->top) generator->top.push_back({one.id, one.logprob});
    *token = {(*next)->id, (*next)->logprob, generator->top.data(), generator->top.size()};
    return 2;
  });
  return answer - 1;
}

const char* nibble_generator_stats_json(nibble_generator* generator) noexcept {
  return in_turn(generator, "generator", [&]() -> const char* {
    auto stats = generator->generator.stats();
    if (!stats) return failed(std::move(stats).error());
    generator->json = nibble::to_json(*stats).dump();
    return generator->json.c_str();
  });
}

int64_t nibble_generator_tokens(nibble_generator* generator, int32_t* tokens, size_t room) noexcept {
  const int64_t answer = in_turn(generator, "generator", [&]() -> int64_t {
    if (room != 0 && !is_there(tokens, "room for tokens")) return 0;
    auto held = generator->generator.tokens();
    if (!held) {
      failed(std::move(held).error());
      return 0;
    }
    std::copy_n(held->begin(), std::min(room, held->size()), tokens);
    return static_cast<int64_t>(held->size()) + 1;
  });
  return answer - 1;
}

bool nibble_generator_stop(nibble_generator* generator) noexcept {
  return in_turn(generator, "generator", [&] { return ok(generator->generator.stop()); });
}

void nibble_generator_cancel(nibble_generator* generator) noexcept {
  if (generator != nullptr && !nibble::gpu::is_forked()) generator->generator.cancel();
}

bool nibble_generator_rewind(nibble_generator* generator, int64_t count) noexcept {
  return in_turn(generator, "generator", [&] { return ok(generator->generator.rewind(count)); });
}

nibble_generator* nibble_generator_fork(nibble_generator* generator) noexcept {
  return in_turn(generator, "generator", [&]() -> nibble_generator* {
    auto other = generator->generator.fork();
    if (!other) return failed(std::move(other).error());
    return new nibble_generator{*other, {}, {}, {}};
  });
}

bool nibble_generator_save(nibble_generator* generator, const char* path) noexcept {
  return in_turn(generator, "generator", [&] { return is_there(path, "path") && ok(generator->generator.save(path)); });
}

bool nibble_generator_restore(nibble_generator* generator, const char* path) noexcept {
  return in_turn(generator, "generator",
                 [&] { return is_there(path, "path") && ok(generator->generator.restore(path)); });
}

void nibble_generator_free(nibble_generator* generator) noexcept { discard(generator); }

nibble_text* nibble_text_make(const char* const* stops, const size_t* lengths, size_t count) noexcept {
  return entry([&]() -> nibble_text* {
    if (count != 0 && !(is_there(stops, "list of stop strings") && is_there(lengths, "list of lengths")))
      return nullptr;
    std::vector<std::string> texts;
    for (size_t i = 0; i < count; ++i) {
      if (!is_there(stops[i], "stop string")) return nullptr;
      texts.emplace_back(stops[i], lengths[i]);
    }
    auto stream = nibble::generate::TextStream::make(std::move(texts));
    if (!stream) return failed(std::move(stream).error());
    return new nibble_text{std::move(*stream)};
  });
}

const char* nibble_text_push(nibble_text* text, const char* bytes, size_t count, size_t* length) noexcept {
  return entry([&]() -> const char* {
    if (!is_there(text, "text") || !is_there(length, "length") || (count != 0 && !is_there(bytes, "list of bytes"))) {
      return nullptr;
    }
    const auto out = text->stream.push({bytes, count});
    *length = out.size();
    return out.empty() ? "" : out.data();
  });
}

const char* nibble_text_finish(nibble_text* text, size_t* length) noexcept {
  return entry([&]() -> const char* {
    if (!is_there(text, "text") || !is_there(length, "length")) return nullptr;
    const auto out = text->stream.finish();
    *length = out.size();
    return out.empty() ? "" : out.data();
  });
}

int64_t nibble_text_stop(nibble_text* text) noexcept {
  if (text == nullptr || !text->stream.stopped()) return -1;
  return static_cast<int64_t>(*text->stream.stopped());
}

void nibble_text_free(nibble_text* text) noexcept { delete text; }
