// WGSL as the build embeds it (scripts/embed_wgsl.py). A file holds a kernel, modules, or both. Lines that begin with
// `//!` declare what each of them needs:
//   //! uses: NAME, …          modules that always come with it
//   //! slots: NAME, NAME?     the op fills each slot with a module that it chooses; one with `?` may stay empty
//   //! expression: SIGNATURE  a function whose body is the op's expression, such as apply(v: vec4<T>) -> vec4<T>
//   //! needs: subgroups       features that the device must have
//   //! module: NAME           a new module begins here
// A generated prelude with the storage buffers comes first. Texts are only joined, never edited, but for this: the
// build puts a first member into `struct Params`, which every kernel has, the number of the dispatch's first workgroup.
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
