// The names and roles of an op's arguments, declared in src/ops. Read a node's arguments by name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace nibble {

/// What an argument is for. It follows from the parameter's type, see plan/arguments.hpp.
enum class Role : std::uint8_t {
  tensor,
  table,    ///< a constant that may be split into shards of rows
  columns,  ///< a constant that may be split into shards of columns
  state,    ///< a tensor that the op changes in place
  ids,      ///< indices, checked by the host or by the kernel
  host,     ///< a tensor whose elements the host reads before every call
  tensors,
  number,
  numbers,
  integer,
  live_integer,  ///< may be a SymInt
  boolean,
  text,
  ints,
  live_ints,  ///< may hold SymInts
  ignored,
  out,
  view,  ///< an output that may share the storage of the op's state, or else of its first tensor
  outs,
  integer_out,
};

/// The name in docs/ops.md.
std::string_view to_string(Role role) noexcept;

constexpr bool is_output(Role role) {
  return role == Role::out || role == Role::view || role == Role::outs || role == Role::integer_out;
}

/// Whether elementwise ops can follow an op in its kernel.
enum class Joins : std::uint8_t {
  no,
  steps,   ///< its result can pass through elementwise ops on its way to memory
  as_one,  ///< it is such an op
};

struct Arg {
  std::string_view name;
  Role role = Role::ignored;
  bool optional = false;
};

struct Signature {
  static constexpr std::size_t kMaxArgs = 18;

  std::string_view op;
  std::array<Arg, kMaxArgs> list{};
  std::size_t count = 0;
  Joins joins = Joins::no;

  constexpr std::span<const Arg> args() const { return std::span(list).first(count); }
  /// The index of the argument with this name.
  constexpr std::optional<std::size_t> find(std::string_view name) const {
    for (std::size_t i = 0; i < count; ++i) {
      if (list[i].name == name) return i;
    }
    return {};
  }
  /// The index of the first argument with this role.
  constexpr std::optional<std::size_t> find(Role role) const {
    for (std::size_t i = 0; i < count; ++i) {
      if (list[i].role == role) return i;
    }
    return {};
  }
  constexpr bool has(Role role) const { return find(role).has_value(); }
  /// Whether the op changes an argument in place.
  constexpr bool mutates() const { return has(Role::state); }
  /// The argument whose storage the output may share.
  constexpr std::optional<std::size_t> viewed() const {
    if (!has(Role::view)) return {};
    const auto state = find(Role::state);
    return state ? state : find(Role::tensor);
  }
};

}  // namespace nibble
