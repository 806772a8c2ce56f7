#include "constraint/exports.hpp"

#include <cstdlib>
#include <utility>

#ifdef _LIBCPP_VERSION
/// The last words of the C++ library, such as that there is no memory, would take all of printf.
[[noreturn]] void std::__libcpp_verbose_abort(const char* /*text*/, ...) noexcept { __builtin_trap(); }
#endif

namespace nibble::constraint {
namespace {

void remember(Error error) { generate::LastError::get().remember(std::move(error)); }

/// A thing of its own, or null and why not.
template <typename T>
T* give(Result<T> made) {
  if (made) return new T(std::move(*made));
  remember(std::move(made).error());
  return nullptr;
}

}  // namespace

void* nibble_text_alloc(std::uint32_t bytes) noexcept { return std::malloc(bytes); }
void nibble_text_release(void* memory) noexcept { std::free(memory); }
const generate::Failure* nibble_text_error() noexcept { return generate::LastError::get().failure(); }

Vocabulary* nibble_vocabulary_new(const char* texts, std::uint32_t bytes, const std::uint32_t* ends,
                                  std::uint32_t count, const std::int32_t* stop_ids,
                                  std::uint32_t stop_count) noexcept {
  return give(Vocabulary::make({texts, bytes}, {ends, ends + count}, {stop_ids, stop_ids + stop_count}));
}

void nibble_vocabulary_free(Vocabulary* vocabulary) noexcept { delete vocabulary; }

Matcher* nibble_matcher_new(const Vocabulary* vocabulary, const char* grammar, std::uint32_t bytes) noexcept {
  auto parsed = Grammar::parse({grammar, bytes});
  if (!parsed) return give(Result<Matcher>(std::unexpected(std::move(parsed).error())));
  return give(Matcher::make(*vocabulary, *std::move(parsed)));
}

void nibble_matcher_free(Matcher* matcher) noexcept { delete matcher; }

const std::uint32_t* nibble_matcher_allowed(const Matcher* matcher) noexcept { return matcher->allowed().data(); }

std::uint32_t nibble_matcher_is_done(const Matcher* matcher) noexcept { return matcher->is_done() ? 1 : 0; }

std::int32_t nibble_matcher_take(Matcher* matcher, std::int32_t token) noexcept {
  auto status = matcher->take(token);
  if (status) return 1;
  remember(std::move(status).error());
  return -1;
}

}  // namespace nibble::constraint
