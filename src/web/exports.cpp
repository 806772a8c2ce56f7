#include "web/exports.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "web/program_reader.hpp"
#include "web/session.hpp"

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
namespace {

struct LastError {
  Error error;
  wire::Failure record;
};

LastError& last_error() {
  static auto& last = *new LastError;
  return last;
}

const wire::Failure* remember(Error error) {
  auto& last = last_error();
  last.error = std::move(error);
  last.record = {.code = static_cast<std::uint32_t>(last.error.code), .message = std::string_view(last.error.message)};
  return &last.record;
}

/// The address or number, or none and the error remembered.
template <class T>
T give(Result<T> result) {
  if (result) return *result;
  remember(std::move(result).error());
  return {};
}

std::uint32_t give(Status status) {
  if (status) return 1;
  remember(std::move(status).error());
  return 0;
}

// The program and the list of sessions end with the instance: without destructors the module is smaller.
ProgramReader& program() {
  static auto& reader = *new ProgramReader;
  return reader;
}

/// By number - 1; a number is used again once its session is freed.
std::vector<std::unique_ptr<Session>>& sessions() {
  static auto& all = *new std::vector<std::unique_ptr<Session>>;
  return all;
}

/// Null, and the error remembered, if there is no such session.
Session* find(std::uint32_t number) {
  if (number - 1 < sessions().size() && sessions()[number - 1]) return sessions()[number - 1].get();
  remember(no_such("session", number));
  return nullptr;
}

Result<std::uint32_t> new_session() {
  TRY_ASSIGN(auto boundary, program().boundary());
  auto& all = sessions();
  const auto place = std::ranges::find_if(all, [](const auto& one) { return one == nullptr; });
  const auto number = static_cast<std::uint32_t>(place - all.begin() + 1);
  auto session = std::make_unique<Session>(std::move(boundary));
  if (place == all.end()) {
    all.push_back(std::move(session));
  } else {
    *place = std::move(session);
  }
  return number;
}

}  // namespace

std::uint32_t nibble_wire_version() noexcept { return wire::kVersion; }

void* nibble_alloc(std::uint32_t bytes) noexcept { return std::malloc(bytes); }
void nibble_free(void* memory) noexcept { std::free(memory); }

const wire::Failure* nibble_error() noexcept { return &last_error().record; }

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

std::uint32_t nibble_session_new() noexcept { return give(new_session()); }

void nibble_session_free(std::uint32_t session) noexcept {
  auto& all = sessions();
  if (session - 1 < all.size()) all[session - 1].reset();
}

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
