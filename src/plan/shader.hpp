// WGSL as the build embeds it (scripts/embed_wgsl.py). A file holds a kernel, modules, or both. Lines that begin with
// `//!` declare what each of them needs:
//   //! uses: NAME, …          modules that always come with it
//   //! slots: NAME, NAME?     the op fills each slot with a module that it chooses; one with `?` may stay empty
//   //! expression: SIGNATURE  a function whose body is the op's expression, such as apply(v: vec4<T>) -> vec4<T>
//   //! needs: subgroups, f16  features that the device must have
//   //! proven: WHY            with whatever fills its slots, a kernel never indexes outside of a buffer or array, as
//                              its indices come from the grid and from what the planner knows, not from data
//                              (tests/device/gpu_proven_test.cpp tries it)
//   //! module: NAME           a new module begins here
// A generated prelude with the storage buffers comes first. Texts are only joined, never edited, but for two things:
// the build puts a first member into `struct Params`, which every kernel has, the number of the dispatch's first
// workgroup; and in modules for a binding or a step of a chain, words in capitals stand for its own (`write_words`).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

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
  bool needs_f16 = false;
  bool proven = false;
};

/// A word, and what stands in its place.
using Word = std::pair<std::string_view, std::string_view>;
/// Appends a text with all of these words replaced.
void write_words(std::string& out, std::string_view text, std::span<const Word> words);

}  // namespace nibble
