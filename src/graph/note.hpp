// A note for documentation, `nibble ops` and `nibble inspect`. The wasm build leaves it out.
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
