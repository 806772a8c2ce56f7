// A kernel that comes in several forms has a table of variants, and asks Lowering::choose() for one. That is the only
// branch on shapes and devices that a kernel depends on: so a plan can find out, from the ranges of what a choice
// depends on, which variants any call may take.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/note.hpp"
#include "graph/status.hpp"
#include "plan/profile.hpp"
#include "plan/shader.hpp"
#include "plan/tuning.hpp"

namespace nibble {

/// A number in this call, and the range that it has over all calls.
struct Extent {
  std::uint64_t now = 1;
  std::uint64_t least = now;
  std::uint64_t most = now;
};

/// What a choice depends on. Traits are bits whose meaning is the choice's own, such as "rows are whole vec4s".
struct Facts {
  Extent rows{};
  Extent width{};
  std::uint32_t traits = 0;  ///< of this call
  std::uint32_t varies = 0;  ///< those that other calls may have otherwise

  Facts& trait(std::uint32_t bit, bool is_so, bool may_vary) {
    if (is_so) traits |= bit;
    if (may_vary) varies |= bit;
    return *this;
  }
};

enum class Adapters : std::uint8_t { any, cpu, gpu };

/// A condition on facts and devices; empty, it is met everywhere.
struct When {
  static constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();

  Adapters adapters = Adapters::any;
  std::uint64_t min_rows = 0;
  std::uint64_t max_rows = kAny;
  std::uint64_t min_width = 0;
  std::uint64_t max_width = kAny;
  std::uint32_t traits = 0;  ///< all of these
  std::uint32_t none_of = 0;
  bool subgroups = false;  ///< needs a device that has them
};

/// What one thread, or one workgroup, makes at a time. It reaches kernels as overrides.
struct Tile {
  /// As many threads as a CPU adapter runs as one vector.
  static constexpr std::uint32_t kVector = 0;

  std::uint32_t rows = 1;
  std::uint32_t columns = 1;
  std::uint32_t threads = 1;  ///< of a workgroup, where it must have so many
};

/// A row of a table: {name, right where, best where, tile, shader, why}.
struct Variant {
  std::string_view name;
  When right{};  ///< where its results are right
  When best{};   ///< where it is likely the fastest, and no row above it is
  Tile tile{};
  const Shader* shader = nullptr;  ///< where each variant has its own
  Note why{};

  std::uint32_t threads(const DeviceProfile& profile) const {
    return tile.threads == Tile::kVector ? profile.vector_lanes() : tile.threads;
  }
};

/// The last variant must be right everywhere that none of the others is.
struct Choice {
  std::string_view name;
  std::span<const Variant> variants;
};

/// What may be preferred to a table's own order.
class Preferences {
 public:
  Preferences() = default;
  /// What the options force and tune. Names that no choice in `known` has are errors that list those it has.
  static Result<Preferences> make(const Options& options, std::span<const Choice* const> known);

  /// The variant for a call: what is forced, then what is tuned, then what the table prefers, each where it is right.
  std::size_t pick(const Choice& choice, const Facts& facts, const DeviceProfile& profile) const;
  /// All that pick() may give for any numbers and traits in the ranges of `facts`; at least one.
  std::vector<std::size_t> possible(const Choice& choice, const Facts& facts, const DeviceProfile& profile) const;

 private:
  struct Preference {
    const Choice* choice = nullptr;
    std::size_t variant = 0;
    When when{};
  };

  template <class F>
  void for_each(const Choice& choice, F&& f) const;

  std::vector<Preference> preferences_;
};

}  // namespace nibble
