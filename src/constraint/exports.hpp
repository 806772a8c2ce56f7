// This room as a WebAssembly module of its own, which only pages load whose texts must look like something. Objects are
// known by their addresses, and belong to whoever made them. A call that fails gives null or a negative number, and
// nibble_text_error() tells why. Addresses and lengths must be right; all else is checked.
#pragma once

#include <cstdint>

#include "constraint/matcher.hpp"
#include "generate/last_error.hpp"

#ifdef __wasm32__
#define NIBBLE_CONSTRAINT_EXPORT(name) __attribute__((export_name(#name)))
#else
#define NIBBLE_CONSTRAINT_EXPORT(name)
#endif

namespace nibble::constraint {

NIBBLE_CONSTRAINT_EXPORT(nibble_text_alloc) void* nibble_text_alloc(std::uint32_t bytes) noexcept;
NIBBLE_CONSTRAINT_EXPORT(nibble_text_release) void nibble_text_release(void* memory) noexcept;
NIBBLE_CONSTRAINT_EXPORT(nibble_text_error) const generate::Failure* nibble_text_error() noexcept;

/// The bytes of `count` tokens, one after the other, and where each of them ends.
NIBBLE_CONSTRAINT_EXPORT(nibble_vocabulary_new)
Vocabulary* nibble_vocabulary_new(const char* texts, std::uint32_t bytes, const std::uint32_t* ends,
                                  std::uint32_t count, const std::int32_t* stop_ids, std::uint32_t stop_count) noexcept;
NIBBLE_CONSTRAINT_EXPORT(nibble_vocabulary_free) void nibble_vocabulary_free(Vocabulary* vocabulary) noexcept;

/// Follows a text through a grammar. The vocabulary must outlive it.
NIBBLE_CONSTRAINT_EXPORT(nibble_matcher_new)
Matcher* nibble_matcher_new(const Vocabulary* vocabulary, const char* grammar, std::uint32_t bytes) noexcept;
NIBBLE_CONSTRAINT_EXPORT(nibble_matcher_free) void nibble_matcher_free(Matcher* matcher) noexcept;
/// A bit for each token of the vocabulary, until the next call.
NIBBLE_CONSTRAINT_EXPORT(nibble_matcher_allowed)
const std::uint32_t* nibble_matcher_allowed(const Matcher* matcher) noexcept;
NIBBLE_CONSTRAINT_EXPORT(nibble_matcher_is_done) std::uint32_t nibble_matcher_is_done(const Matcher* matcher) noexcept;
/// 1, or -1.
NIBBLE_CONSTRAINT_EXPORT(nibble_matcher_take)
std::int32_t nibble_matcher_take(Matcher* matcher, std::int32_t token) noexcept;

}  // namespace nibble::constraint
