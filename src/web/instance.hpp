// What an instance of the module holds: one program, its sessions, and the last error.
#pragma once

#include "web/program_reader.hpp"
#include "web/session.hpp"

namespace nibble::web {

/// What nibble_error() gives.
const wire::Failure* last_error();
const wire::Failure* remember(Error error);

/// The address or number, or none and the error remembered.
template <class T>
T give(Result<T> result) {
  if (result) return *result;
  remember(std::move(result).error());
  return {};
}
std::uint32_t give(Status status);

ProgramReader& program();

/// Null, and the error remembered, if there is no such session.
Session* find(std::uint32_t number);
/// Its number.
std::uint32_t new_session(std::shared_ptr<const Boundary> boundary);
void free_session(std::uint32_t number);

}  // namespace nibble::web
