// A kernel that comes in several forms has a table of variants. Which kernels an op dispatches depends on live shapes
// and on the device only through `Lowering::choose()`. The planner knows the range of each input of a choice, and so
// which variants calls can select.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/note.hpp"
#include "graph/status.hpp"
#include "nibble/options.hpp"
#include "plan/profile.hpp"
#include "plan/shader.hpp"

namespace nibble {

/// A number in this call, and its range over all calls.
struct Extent {
  std::uint64_t now = 1;
  std::uint64_t least = now;
  std::uint64_t most = now;
};

/// What a choice depends on. Traits are bits; each choice defines their meaning, such as "rows are whole vec4s".
struct Facts {
  Extent rows{};
  Extent width{};
  std::optional<Extent> depth{};  ///< how much is summed up for an element, if that matters: an attention's keys
  std::uint32_t traits = 0;       ///< of this call
  std::uint32_t varies = 0;       ///< traits that may differ in other calls

  Facts& trait(std::uint32_t bit, bool is_so, bool may_vary) {
    if (is_so) traits |= bit;
    if (may_vary) varies |= bit;
    return *this;
  }
};

enum class Adapters : std::uint8_t { any, cpu, gpu };

/// A condition on facts and devices. An empty one is always met.
struct When {
  static constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();

  Adapters adapters = Adapters::any;
  std::uint64_t min_rows = 0;
  std::uint64_t max_rows = kAny;
  std::uint64_t min_width = 0;
  std::uint64_t max_width = kAny;
  std::uint64_t min_depth = 0;
  std::uint64_t max_depth = kAny;
  std::uint32_t traits = 0;  ///< all of these
  std::uint32_t none_of = 0;
  bool subgroups = false;  ///< needs a device that has them
};

/// What one thread, or one workgroup, makes at a time. Ops pass it to kernels as overrides.
struct Tile {
  /// Stands for as many threads as a CPU adapter runs as one vector.
  static constexpr std::uint32_t kVector = 0;

  std::uint32_t rows = 1;
  std::uint32_t columns = 1;
  std::uint32_t threads = 1;  ///< of a workgroup, if it must have this many
  std::uint32_t bytes = 0;    ///< of workgroup memory, if they may be more than every device has
  std::uint32_t groups = 0;   ///< workgroups that fill a device: where there are fewer, they split what they add up
};

/// A row of a table: {name, right where, best where, tile, shader, why}.
struct Variant {
  std::string_view name;
  When right{};  ///< where its results are right
  When best{};   ///< where it is likely faster than the rows below it; with subgroups, only where their size is known
  Tile tile{};
  const Shader* shader = nullptr;  ///< if the variant has a kernel of its own
  Note why{};

  std::uint32_t threads(const DeviceProfile& profile) const {
    return tile.threads == Tile::kVector ? profile.vector_lanes() : tile.threads;
  }
};

/// The last variant must be right wherever no other is.
struct Choice {
  std::string_view name;
  std::span<const Variant> variants;
  /// By how much floats that two variants give may differ: this part of their own size, or of the usual one in the
  /// result. The default is what sums in another order differ by; variants that only move elements give the same.
  float tolerance = 1e-4F;
  bool in_halves = false;  ///< with the option f16_products, some of its variants add up halves
};

/// Whether a variant's results are right in this call.
bool is_right(const Choice& choice, std::size_t variant, const Facts& facts, const DeviceProfile& profile);

/// Forced and tuned variants, which go before the table's own order.
class Preferences {
 public:
  /// Rows of a tuning for one choice. Files have some dozens.
  static constexpr std::size_t kMostRows = 4096;

  Preferences() = default;
  /// From the options. An unknown name is an error that lists the known ones.
  static Result<Preferences> make(const Options& options, std::span<const Choice* const> known);
  /// The same, but calls may also be told to take any other variant that is right (Stepper::force()).
  Preferences with_all() const;

  /// The variant for a call: the first that is right here, of the forced ones, the tuned ones, and the table's.
  std::size_t pick(const Choice& choice, const Facts& facts, const DeviceProfile& profile) const;
  /// All variants that calls may select for any numbers and traits in the ranges of `facts`. At least one.
  std::vector<std::size_t> possible(const Choice& choice, const Facts& facts, const DeviceProfile& profile) const;

 private:
  struct Preference {
    std::size_t variant = 0;
    When when{};
  };
  /// Of one choice, the first goes before the others. Most rows of a tuning are for one size: calls find these by it.
  struct Preferred {
    const Choice* choice = nullptr;
    std::vector<Preference> all = {};
    std::vector<std::size_t> sizes = {};   ///< places in `all` of those for one size, by size
    std::vector<std::size_t> ranges = {};  ///< of the others

    void add(const Preference& preference);
    template <class F>
    const Preference* find(const Facts& now, F&& is) const;
  };

  Preferred& of(const Choice& choice);
  template <class F>
  static void for_each(const Choice& choice, const DeviceProfile& profile, F&& f);

  std::vector<Preferred> preferred_;
  bool all_ = false;
};

}  // namespace nibble
