#include "web/instance.hpp"

#include <algorithm>

namespace nibble::web {
namespace {

struct LastError {
  Error error;
  wire::Failure record;
};

LastError& the_error() {
  static auto& last = *new LastError;
  return last;
}

// The program and the list of sessions end with the instance: without destructors the module is smaller.

/// By number - 1; a number is used again once its session is freed.
std::vector<std::unique_ptr<Session>>& sessions() {
  static auto& all = *new std::vector<std::unique_ptr<Session>>;
  return all;
}

}  // namespace

const wire::Failure* last_error() { return &the_error().record; }

const wire::Failure* remember(Error error) {
  auto& last = the_error();
  last.error = std::move(error);
  last.record = {.code = static_cast<std::uint32_t>(last.error.code), .message = std::string_view(last.error.message)};
  return &last.record;
}

std::uint32_t give(Status status) {
  if (status) return 1;
  remember(std::move(status).error());
  return 0;
}

ProgramReader& program() {
  static auto& reader = *new ProgramReader;
  return reader;
}

Session* find(std::uint32_t number) {
  if (number - 1 < sessions().size() && sessions()[number - 1]) return sessions()[number - 1].get();
  remember(no_such("session", number));
  return nullptr;
}

std::uint32_t new_session(std::shared_ptr<const Boundary> boundary) {
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

void free_session(std::uint32_t number) {
  if (number - 1 < sessions().size()) sessions()[number - 1].reset();
}

}  // namespace nibble::web
