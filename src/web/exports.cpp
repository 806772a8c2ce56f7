#include "web/exports.hpp"

#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <cstring>

#include "web/instance.hpp"

/// What scripts/build_web.py calls snprintf. {fmt} alone asks for it, for floats in hexadecimal, which no message has;
/// that of the C library is large.
extern "C" int nibble_snprintf(char* /*out*/, std::size_t /*size*/, const char* /*text*/, ...) { return 0; }

#ifdef _LIBCPP_VERSION
/// The last words of the C++ library, such as that there is no memory. Its own function takes all of printf; these have
/// no fields but %s.
[[noreturn]] void std::__libcpp_verbose_abort(const char* text, ...) noexcept {
  std::va_list words;
  va_start(words, text);
  const auto say = [](const char* some, std::size_t bytes) { (void)!::write(STDERR_FILENO, some, bytes); };
  while (const auto* field = std::strstr(text, "%s")) {
    say(text, static_cast<std::size_t>(field - text));
    const auto* word = va_arg(words, const char*);
    say(word, std::strlen(word));
    text = field + 2;
  }
  say(text, std::strlen(text));
  va_end(words);
  std::abort();
}
#endif

namespace nibble::web {

std::uint32_t nibble_wire_version() noexcept { return wire::kVersion; }

void* nibble_alloc(std::uint32_t bytes) noexcept { return std::malloc(bytes); }
void nibble_free(void* memory) noexcept { std::free(memory); }

const wire::Failure* nibble_error() noexcept { return last_error(); }

void nibble_program_new() noexcept { program() = {}; }

const wire::FileRange* nibble_program_head(const std::byte* bytes, std::uint32_t count,
                                           std::uint64_t file_size) noexcept {
  return give(program().head({bytes, count}, file_size));
}

const wire::FileRange* nibble_program_container(const std::byte* bytes, std::uint32_t count, const char* method,
                                                std::uint32_t method_bytes) noexcept {
  return give(program().container({bytes, count}, {method, method_bytes}));
}

std::uint32_t nibble_program_blob(const std::byte* bytes, std::uint32_t count) noexcept {
  return give(program().blob({bytes, count}));
}

const wire::Layout* nibble_program_plan(const wire::Profile* profile, const wire::Options* options) noexcept {
  return give(program().plan(*profile, *options));
}

std::uint32_t nibble_program_name_input(std::uint32_t input, const char* name, std::uint32_t bytes) noexcept {
  return give(program().name_input(input, {name, bytes}));
}

const wire::StateRanges* nibble_program_live_ranges(const std::uint64_t* rows, std::uint32_t count) noexcept {
  return give(program().live_ranges({rows, count}));
}

std::uint32_t nibble_session_new() noexcept {
  auto boundary = program().boundary();
  return boundary ? new_session(std::move(*boundary)) : give(Status(std::unexpected(std::move(boundary).error())));
}

void nibble_session_free(std::uint32_t session) noexcept { free_session(session); }

const wire::GivenInput* nibble_session_given(std::uint32_t session, std::uint32_t count) noexcept {
  auto* one = find(session);
  return one == nullptr ? nullptr : give(one->given(count));
}

const wire::Taken* nibble_session_take(std::uint32_t session) noexcept {
  auto* one = find(session);
  return one == nullptr ? nullptr : give(one->take());
}

const std::int32_t* nibble_session_host_data(std::uint32_t session, std::uint32_t input, std::uint32_t count) noexcept {
  auto* one = find(session);
  return one == nullptr ? nullptr : give(one->host_data(input, count));
}

const wire::Step* nibble_session_update(std::uint32_t session) noexcept {
  auto* one = find(session);
  return one == nullptr ? nullptr : give(one->update());
}

const wire::Failure* nibble_session_fault(std::uint32_t session, std::uint32_t node, std::uint32_t position,
                                          std::uint32_t value, std::uint32_t site) noexcept {
  const auto* one = find(session);
  return one == nullptr ? nibble_error() : remember(one->fault(node, position, value, site));
}

const wire::Failure* nibble_session_bad_element(std::uint32_t session, std::uint32_t input,
                                                const wire::BadElement* element) noexcept {
  const auto* one = find(session);
  return one == nullptr ? nibble_error() : remember(one->bad_element(input, *element));
}

}  // namespace nibble::web
