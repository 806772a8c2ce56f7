// WGSL as the build embeds it (scripts/embed_wgsl.py): a file is a kernel or a module, and says in lines that begin
// with
// `//!` what it needs:
//   //! uses: NAME, …        modules that are always written in front of it
//   //! slots: NAME, NAME?   what the op fills with a module of its choice; one with `?` may stay open
//   //! expression: SIGNATURE  a function whose body is the op's expression, such as apply(v: vec4<T>) -> vec4<T>
//   //! needs: subgroups     features of the device
//   //! module: NAME         what follows is a module of its own
// A prelude with the storage buffers goes in front of all; no text is ever edited.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace nibble {

struct Shader {
  struct Slot {
    std::string_view name;
    bool optional = false;
  };

  std::string_view name;
  std::string_view body;
  std::span<const Shader* const> uses{};
  std::span<const Slot> slots{};
  std::string_view expression{};
  bool needs_subgroups = false;
};

}  // namespace nibble
