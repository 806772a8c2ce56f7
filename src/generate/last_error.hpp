// How the WebAssembly modules of text generation tell why a call failed.
#pragma once

#include <cstdint>
#include <utility>

#include "nibble/types.hpp"

namespace nibble::generate {

/// TypeScript reads it by its offsets, which are those of wasm32: see web/src/generate/text_module.ts.
struct Failure {
  std::uint32_t code = 0;
  const char* message = nullptr;
  std::uint32_t bytes = 0;
};

#ifdef __wasm32__
static_assert(sizeof(Failure) == 12);
#endif

/// Of the last call that failed.
class LastError {
 public:
  static LastError& get() {
    static auto& last = *new LastError;  // ends with the instance
    return last;
  }

  const Failure* failure() const { return &failure_; }

  void remember(Error error) {
    error_ = std::move(error);
    failure_ = {.code = static_cast<std::uint32_t>(error_.code),
                .message = error_.message.data(),
                .bytes = static_cast<std::uint32_t>(error_.message.size())};
  }

 private:
  Error error_;
  Failure failure_;
};

}  // namespace nibble::generate
