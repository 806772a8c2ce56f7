// What the WebAssembly module offers to the TypeScript executor. A call that fails gives null, and nibble_error() tells
// why. What a call gives stays readable until the next call on the same object. An instance of the module serves one
// program and its sessions, which have numbers from 1 on. Addresses and lengths must be those of memory; all else is
// checked.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "web/program_reader.hpp"
#include "web/session.hpp"

/// What scripts/build_web.py calls snprintf. {fmt} alone asks for it, for floats in hexadecimal, which no message has;
/// that of the C library is large.
extern "C" int nibble_snprintf(char* /*out*/, std::size_t /*size*/, const char* /*text*/, ...) { return 0; }

namespace nibble::web {
namespace {

struct LastError {
  Error error;
  wire::Failure record;
};

LastError& last_error() {
  static LastError last;
  return last;
}

const wire::Failure* remember(Error error) {
  auto& last = last_error();
  last.error = std::move(error);
  last.record = {.code = static_cast<std::uint32_t>(last.error.code), .message = std::string_view(last.error.message)};
  return &last.record;
}

/// The address, or null and the error remembered.
template <class T>
const T* give(Result<const T*> result) {
  if (result) return *result;
  remember(std::move(result).error());
  return nullptr;
}

std::uint32_t give(Status status) {
  if (status) return 1;
  remember(std::move(status).error());
  return 0;
}

ProgramReader& program() {
  static ProgramReader reader;
  return reader;
}

/// By number - 1; a number is used again once its session is freed.
std::vector<std::unique_ptr<Session>>& sessions() {
  static std::vector<std::unique_ptr<Session>> all;
  return all;
}

/// What `use` gives for the session, or the error that there is none.
template <class Use>
auto with_session(std::uint32_t number, Use use) -> decltype(use(std::declval<Session&>())) {
  if (number - 1 < sessions().size() && sessions()[number - 1]) return use(*sessions()[number - 1]);
  return std::unexpected(no_such("session", number));
}

Result<std::uint32_t> new_session() {
  TRY_ASSIGN(auto boundary, program().boundary());
  auto& all = sessions();
  const auto place = std::ranges::find(all, nullptr);
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
}  // namespace nibble::web

// Other targets have no exports: the fuzzer calls these as they are.
#ifdef __wasm32__
#define NIBBLE_EXPORT(name) extern "C" __attribute__((export_name(#name)))
#else
#define NIBBLE_EXPORT(name) extern "C"
#endif

using nibble::Result;
using nibble::web::give;
using nibble::web::program;
using nibble::web::Session;
using nibble::web::with_session;
namespace wire = nibble::wire;

NIBBLE_EXPORT(nibble_wire_version) std::uint32_t nibble_wire_version() noexcept { return wire::kVersion; }

/// Null when there is no memory.
NIBBLE_EXPORT(nibble_alloc) void* nibble_alloc(std::uint32_t bytes) noexcept { return std::malloc(bytes); }
NIBBLE_EXPORT(nibble_free) void nibble_free(void* memory) noexcept { std::free(memory); }

NIBBLE_EXPORT(nibble_error) const wire::Failure* nibble_error() noexcept { return &nibble::web::last_error().record; }

/// The next program; sessions of the one before stay.
NIBBLE_EXPORT(nibble_program_new) void nibble_program_new() noexcept { program() = {}; }

/// The first bytes of the file; gives the range of the program in it.
NIBBLE_EXPORT(nibble_program_head) const wire::FileRange* nibble_program_head(ProgramReader* program,
                                                                              const std::byte* bytes,
                                                                              std::uint32_t count,
                                                                              std::uint64_t file_size) noexcept {
  return nibble::web::give(program->head({bytes, count}, file_size));
}

/// The program; gives the range of the delegate's blob.
NIBBLE_EXPORT(nibble_program_container) const wire::FileRange* nibble_program_container(
    ProgramReader* program, const std::byte* bytes, std::uint32_t count, const char* method,
    std::uint32_t method_bytes) noexcept {
  return nibble::web::give(program->container({bytes, count}, {method, method_bytes}));
}

NIBBLE_EXPORT(nibble_program_blob) std::uint32_t nibble_program_blob(ProgramReader* program, const std::byte* bytes,
                                                                     std::uint32_t count) noexcept {
  return nibble::web::give(program->blob({bytes, count}));
}

NIBBLE_EXPORT(nibble_program_plan) const wire::Layout* nibble_program_plan(ProgramReader* program,
                                                                           const wire::Profile* profile,
                                                                           const wire::Options* options) noexcept {
  return nibble::web::give(program->plan(*profile, *options));
}

NIBBLE_EXPORT(nibble_program_name_input) void nibble_program_name_input(ProgramReader* program, std::uint32_t input,
                                                                        const char* name,
                                                                        std::uint32_t bytes) noexcept {
  program->name_input(input, {name, bytes});
}

NIBBLE_EXPORT(nibble_session_new) Session* nibble_session_new(const ProgramReader* program) noexcept {
  return new Session(program->boundary());
}
NIBBLE_EXPORT(nibble_session_free) void nibble_session_free(Session* session) noexcept { delete session; }

/// Where the caller puts what a call is given, before the session takes it.
NIBBLE_EXPORT(nibble_session_given) const wire::GivenInput* nibble_session_given(Session* session,
                                                                                 std::uint32_t count) noexcept {
  return nibble::web::give(session->given(count));
}

NIBBLE_EXPORT(nibble_session_take) const wire::Taken* nibble_session_take(Session* session) noexcept {
  return nibble::web::give(session->take());
}

/// Where the caller puts the `count` elements of an input that the planner reads, before it updates the session.
NIBBLE_EXPORT(nibble_session_host_data) const std::int32_t* nibble_session_host_data(Session* session,
                                                                                     std::uint32_t input,
                                                                                     std::uint32_t count) noexcept {
  return nibble::web::give(session->host_data(input, count));
}

NIBBLE_EXPORT(nibble_session_update) const wire::Step* nibble_session_update(Session* session) noexcept {
  return nibble::web::give(session->update());
}

NIBBLE_EXPORT(nibble_session_fault) const wire::Failure* nibble_session_fault(const Session* session,
                                                                              std::uint32_t node,
                                                                              std::uint32_t position,
                                                                              std::uint32_t value,
                                                                              std::uint32_t site) noexcept {
  return nibble::web::remember(session->fault(node, position, value, site));
}

NIBBLE_EXPORT(nibble_session_bad_element) const wire::Failure* nibble_session_bad_element(
    const Session* session, std::uint32_t input, const wire::BadElement* element) noexcept {
  return nibble::web::remember(session->bad_element(input, *element));
}
