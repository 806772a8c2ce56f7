// What the WebAssembly module offers to the TypeScript executor. A call that fails gives null, and nibble_error() tells
// why. What a call gives stays readable until the next call on the same object. An instance of the module serves one
// program and its sessions, which have numbers from 1 on. Addresses and lengths must be those of memory; all else is
// checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire.hpp"

// Elsewhere tests call these as they are. They are in a namespace because the C API has some of their names.
#ifdef __wasm32__
#define NIBBLE_WASM_EXPORT(name) __attribute__((export_name(#name)))
#else
#define NIBBLE_WASM_EXPORT(name)
#endif

namespace nibble::web {

NIBBLE_WASM_EXPORT(nibble_wire_version) std::uint32_t nibble_wire_version() noexcept;

/// Null when there is no memory.
NIBBLE_WASM_EXPORT(nibble_alloc) void* nibble_alloc(std::uint32_t bytes) noexcept;
NIBBLE_WASM_EXPORT(nibble_free) void nibble_free(void* memory) noexcept;

NIBBLE_WASM_EXPORT(nibble_error) const wire::Failure* nibble_error() noexcept;

/// Another program; sessions of the one before stay. Only tests have several, so this is not exported.
void nibble_program_new() noexcept;
/// The first bytes of the file; gives the range of the program in it.
NIBBLE_WASM_EXPORT(nibble_program_head)
const wire::FileRange* nibble_program_head(const std::byte* bytes, std::uint32_t count,
                                           std::uint64_t file_size) noexcept;
/// The program; gives the range of the delegate's blob.
NIBBLE_WASM_EXPORT(nibble_program_container)
const wire::FileRange* nibble_program_container(const std::byte* bytes, std::uint32_t count, const char* method,
                                                std::uint32_t method_bytes) noexcept;
NIBBLE_WASM_EXPORT(nibble_program_blob)
std::uint32_t nibble_program_blob(const std::byte* bytes, std::uint32_t count) noexcept;
NIBBLE_WASM_EXPORT(nibble_program_plan)
const wire::Layout* nibble_program_plan(const wire::Profile* profile, const wire::Options* options) noexcept;
NIBBLE_WASM_EXPORT(nibble_program_name_input)
std::uint32_t nibble_program_name_input(std::uint32_t input, const char* name, std::uint32_t bytes) noexcept;
/// What counts of a session's state, with so many rows in use of each.
NIBBLE_WASM_EXPORT(nibble_program_live_ranges)
const wire::StateRanges* nibble_program_live_ranges(const std::uint64_t* rows, std::uint32_t count) noexcept;

/// The session's number.
NIBBLE_WASM_EXPORT(nibble_session_new) std::uint32_t nibble_session_new() noexcept;
NIBBLE_WASM_EXPORT(nibble_session_free) void nibble_session_free(std::uint32_t session) noexcept;
/// Where the caller puts what a call is given, before the session takes it.
NIBBLE_WASM_EXPORT(nibble_session_given)
const wire::GivenInput* nibble_session_given(std::uint32_t session, std::uint32_t count) noexcept;
NIBBLE_WASM_EXPORT(nibble_session_take) const wire::Taken* nibble_session_take(std::uint32_t session) noexcept;
/// Where the caller puts the `count` elements of an input that the planner reads, before it updates the session.
NIBBLE_WASM_EXPORT(nibble_session_host_data)
const std::int32_t* nibble_session_host_data(std::uint32_t session, std::uint32_t input, std::uint32_t count) noexcept;
NIBBLE_WASM_EXPORT(nibble_session_update) const wire::Step* nibble_session_update(std::uint32_t session) noexcept;
NIBBLE_WASM_EXPORT(nibble_session_fault)
const wire::Failure* nibble_session_fault(std::uint32_t session, std::uint32_t node, std::uint32_t position,
                                          std::uint32_t value, std::uint32_t site) noexcept;
NIBBLE_WASM_EXPORT(nibble_session_bad_element)
const wire::Failure* nibble_session_bad_element(std::uint32_t session, std::uint32_t input,
                                                const wire::BadElement* element) noexcept;

}  // namespace nibble::web
