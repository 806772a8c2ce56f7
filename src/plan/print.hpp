// A plan in readable form: `nibble inspect` shows it, tests compare it.
#pragma once

#include <string>
#include <vector>

#include "plan/stepper.hpp"

namespace nibble {

std::string_view to_string(BufferRole role) noexcept;

/// `512 B`, `1.5 KiB`, `31.2 MiB`
std::string format_bytes(std::uint64_t bytes);

/// One dispatch of a call, or one piece of it, with names in place of ids.
struct DispatchInfo {
  struct Binding {
    BufferId buffer = 0;
    BufferRole role = BufferRole::slot;
    Access access = Access::read;
    std::uint64_t bytes = 0;
  };
  std::uint32_t node = 0;
  std::string op;
  std::string kernel;
  std::array<std::uint32_t, 3> grid{};
  std::uint32_t first_group = 0;  ///< not 0: a piece, behind others of the same dispatch
  std::uint32_t workgroup = 0;
  std::vector<Binding> bindings;
};

/// What the call that was last planned with update() does.
std::vector<DispatchInfo> describe_dispatches(const Stepper& stepper);

/// A choice that nodes of one op make in the same way.
struct ChoiceInfo {
  std::string op;
  std::string choice;
  std::string chosen;
  std::string why;
  std::vector<std::string> possible;  ///< variants that calls may select
  std::size_t nodes = 0;

  friend bool operator==(const ChoiceInfo&, const ChoiceInfo&) = default;
};

/// What was chosen for the call that was last planned, and what other calls may choose.
std::vector<ChoiceInfo> describe_choices(const Stepper& stepper);

/// One paragraph per dispatch, or for all pieces of it.
std::string print_dispatches(std::span<const DispatchInfo> dispatches);

/// Bytes of GPU memory, by use.
struct MemoryUse {
  std::uint64_t constants = 0;
  std::uint64_t states = 0;
  std::uint64_t slots = 0;
  std::uint64_t slots_unshared = 0;  ///< what the slots would take if no two tensors shared one
  std::uint64_t staging = 0;
};

MemoryUse measure_memory(const Plan& plan);

}  // namespace nibble
