// A sentence for people who read our tables. The web's planner prints none, so its file does not carry them.
#pragma once

#include <string_view>

namespace nibble {

struct Note {
  constexpr Note() = default;
  consteval Note([[maybe_unused]] const char* sentence) {
#ifndef __wasm__
    text = sentence;
#endif
  }

  std::string_view text;
};

}  // namespace nibble
